/* SPDX-License-Identifier: GPL-2.0-only */
/* Promises of tane.h about traces. The arguments are the images lab and default. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tane.h>
#include "check.h"

static struct tane_kernel *boot(const char *image)
{
	struct tane_kernel_options options = {
		.size = sizeof(options), .image = image
	};
	struct tane_kernel *kernel;

	CHECK(!tane_kernel_boot(&options, &kernel));
	return kernel;
}

static void look(struct tane_kernel *kernel)
{
	const char *name = "/none";

	CHECK(tane_syscall(kernel, SYS_open, (uintptr_t)name, 0, 0, 0, 0, 0) ==
	      -ENOENT);
}

static void every_function_of_a_call_is_told(struct tane_kernel *kernel)
{
	struct tane_traced call = { .size = sizeof(call) };
	struct tane_traced last = { .depth = 0 };
	struct tane_trace *trace, *second = NULL;
	int64_t count, opened = 0, refused = 0;

	look(kernel);
	CHECK(!tane_trace_start(kernel, NULL, &trace));
	CHECK(tane_trace_start(kernel, NULL, &second) == -EBUSY && !second);
	CHECK(tane_trace_call(trace, 0, &call) == -EINVAL);
	look(kernel);
	count = tane_trace_stop(trace);
	CHECK(count > 10 && tane_trace_stop(trace) == count);
	/* What comes now is not recorded. */
	look(kernel);
	CHECK(tane_trace_stop(trace) == count && !tane_trace_lost(trace));
	for (int64_t i = 0; i < count; i++) {
		CHECK(!tane_trace_call(trace, i, &call));
		CHECK(call.function[0] && call.own <= call.duration);
		CHECK(!i || call.thread != last.thread ||
		      call.depth <= last.depth + 1);
		opened += !strcmp(call.function, "do_filp_open");
		refused += !strcmp(call.function, "do_filp_open") &&
			   call.error == ENOENT;
		last = call;
	}
	CHECK(opened == 1 && refused == 1);
	CHECK(tane_trace_call(trace, count, &call) == -EINVAL);
	tane_trace_close(trace);
}

static void what_is_recorded_is_chosen(struct tane_kernel *kernel)
{
	struct tane_trace_options options = {
		.size = sizeof(options), .function = "do_filp_open", .depth = 2
	};
	struct tane_traced call = { .size = sizeof(call) };
	struct tane_trace *trace;
	int64_t count;

	CHECK(!tane_trace_start(kernel, &options, &trace));
	look(kernel);
	count = tane_trace_stop(trace);
	CHECK(count > 1);
	for (int64_t i = 0; i < count; i++) {
		CHECK(!tane_trace_call(trace, i, &call));
		CHECK(call.depth == !!i);
		CHECK(i || !strcmp(call.function, "do_filp_open"));
	}
	tane_trace_close(trace);
	trace = NULL;
	options.function = "no_such_function";
	CHECK(tane_trace_start(kernel, &options, &trace) == -EINVAL);
	CHECK(strstr(tane_error_message(), "no_such_function") && !trace);
	/* It left nothing behind. */
	CHECK(!tane_trace_start(kernel, NULL, &trace));
	/* Its handle keeps the kernel. */
	tane_kernel_close(kernel);
	CHECK(tane_trace_stop(trace) >= 0);
	tane_trace_close(trace);
	tane_trace_close(NULL);
}

int main(int argc, char **argv)
{
	struct tane_kernel *kernel;
	struct tane_trace *trace = NULL;

	if (argc != 3)
		return 2;
	kernel = boot(argv[1]);
	every_function_of_a_call_is_told(kernel);
	what_is_recorded_is_chosen(kernel);
	kernel = boot(argv[2]);
	CHECK(tane_trace_start(kernel, NULL, &trace) == -ENOTSUP && !trace);
	CHECK(strstr(tane_error_message(), "image lab"));
	tane_kernel_close(kernel);
	return 0;
}
