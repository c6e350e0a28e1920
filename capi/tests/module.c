/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about checked code. The arguments: a module of
 * tests/support/module.c, an image with the file hello, and a module of
 * tests/support/sockets.c.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tane.h>
#include <unistd.h>
#include "check.h"

static struct tane_module *module;

static int64_t twice(void *arg, struct tane_instance *instance,
		     const int64_t args[6])
{
	int *calls = arg;
	int64_t result;
	uint64_t at;

	++*calls;
	if (args[0] == 1000)
		CHECK(!tane_instance_exit(instance, 42));
	/* It is in a call. */
	CHECK(tane_instance_call(instance, "words", NULL, 0, &result) == -EBUSY);
	CHECK(tane_instance_give(instance, "x", 1, &at) == -EBUSY);
	return 2 * args[0];
}

static int calls_of_twice;
static const struct tane_import imports[] = {
	{ "twice", twice, &calls_of_twice },
};

static const char *const no_calls[] = { NULL };

static struct tane_instance *make(struct tane_instance_options options)
{
	struct tane_instance *instance;

	options.size = sizeof(options);
	options.imports = imports;
	options.import_count = 1;
	CHECK(!tane_instance_new(module, &options, &instance));
	return instance;
}

static int call(struct tane_instance *instance, const char *name, int64_t a,
		int64_t b, int64_t *result)
{
	int64_t args[] = { a, b };

	return tane_instance_call(instance, name, args, 2, result);
}

static int64_t value(struct tane_instance *instance, const char *name,
		     int64_t a)
{
	int64_t result;

	CHECK(!call(instance, name, a, 0, &result));
	return result;
}

static void what_breaks_a_rule_is_no_module(const char *data, size_t len)
{
	struct tane_module *none = NULL;
	char *wrong = malloc(len);

	memcpy(wrong, data, len);
	/* The first byte of the code: no instruction. */
	for (size_t at = 44; at < 60; at++)
		wrong[at] = 0x0f;
	CHECK(tane_module_open(wrong, len, &none) == -ENOEXEC && !none);
	CHECK(strstr(tane_error_message(), "R2 at code+0x0"));
	CHECK(tane_module_open(data, len - 1, &none) == -ENOEXEC && !none);
	CHECK(tane_module_open("", 0, &none) == -ENOEXEC && !none);
	CHECK(tane_module_open(NULL, 1, &none) == -EFAULT && !none);
	free(wrong);
}

static void a_module_says_what_it_has_and_needs(void)
{
	int found = 0;

	for (uint32_t i = 0; tane_module_export(module, i); i++)
		found += !strcmp(tane_module_export(module, i), "add");
	for (uint32_t i = 0; tane_module_import(module, i); i++)
		found += !strcmp(tane_module_import(module, i), "twice");
	CHECK(found == 2);
	CHECK(!tane_module_import(module, 1000000));
}

static void what_it_imports_must_be_given(struct tane_kernel *kernel)
{
	struct tane_instance_options options = {
		.size = sizeof(options), .kernel = kernel
	};
	const char *const wrong[] = { "openat", "execve", NULL };
	struct tane_instance *none = NULL;

	/* Nothing, no files, all but one function. */
	CHECK(tane_instance_new(module, NULL, &none) == -ENOSYS && !none);
	CHECK(tane_instance_new(module, &options, &none) == -ENOSYS && !none);
	options.directory = "/";
	CHECK(tane_instance_new(module, &options, &none) == -ENOSYS && !none);
	CHECK(strstr(tane_error_message(), "twice"));
	options.imports = imports;
	options.import_count = 1;
	options.calls = no_calls;
	CHECK(tane_instance_new(module, &options, &none) == -ENOSYS && !none);
	options.calls = wrong;
	CHECK(tane_instance_new(module, &options, &none) == -EINVAL && !none);
	CHECK(strstr(tane_error_message(), "execve"));
	options.calls = NULL;
	options.directory = "/none";
	CHECK(tane_instance_new(module, &options, &none) == -ENOENT && !none);
	options.kernel = NULL;
	CHECK(tane_instance_new(module, &options, &none) == -EINVAL && !none);
}

static void functions_are_called_and_call(struct tane_instance *instance)
{
	int64_t args[7] = { 0 }, result = 5;

	CHECK(!call(instance, "add", 1LL << 40, -2, &result));
	CHECK(result == (1LL << 40) - 2);
	calls_of_twice = 0;
	CHECK(value(instance, "quadruple", -3) == -12 && calls_of_twice == 2);
	/* Its exit is the call's, though it would go on. */
	CHECK(call(instance, "quadruple", 500, 0, &result) == TANE_TRAP_EXIT);
	CHECK(result == 42 && calls_of_twice == 4);
	CHECK(value(instance, "quadruple", 1) == 4);
	CHECK(tane_instance_exit(instance, 1) == -EINVAL);
	CHECK(tane_instance_call(instance, "none", NULL, 0, NULL) == -ENOENT);
	CHECK(tane_instance_call(instance, "add", args, 7, NULL) == -E2BIG);
	CHECK(tane_instance_call(instance, "add", NULL, 1, NULL) == -EFAULT);
	CHECK(tane_instance_call(instance, NULL, NULL, 0, NULL) == -EFAULT);
}

static void faults_are_results(struct tane_instance *instance)
{
	struct tane_place place = { .size = sizeof(place) };
	int64_t result = 1;

	CHECK(call(instance, "divide", 1, 0, &result) == TANE_TRAP_DIVIDE);
	CHECK(!result && strstr(tane_error_message(), "module.c:"));
	CHECK(!tane_instance_place(instance, &place));
	CHECK(!strcmp(place.function, "divide") && place.line > 20);
	CHECK(strstr(place.file, "module.c"));
	CHECK(call(instance, "divide", INT64_MIN, -1, NULL) == TANE_TRAP_DIVIDE);
	CHECK(call(instance, "deep", 0, 0, NULL) == TANE_TRAP_STACK);
	CHECK(call(instance, "store", 0, 0, NULL) == TANE_TRAP_MEMORY);
	CHECK(call(instance, "store", 0xffffffff, 0, NULL) == TANE_TRAP_MEMORY);
	CHECK(call(instance, "unreachable", 0, 0, NULL) ==
	      TANE_TRAP_UNREACHABLE);
	CHECK(call(instance, "by_pointer", 0, 0, NULL) == TANE_TRAP_CALL);
	CHECK(call(instance, "for_ever", 0, 0, NULL) == TANE_TRAP_TIME);
	CHECK(call(instance, "leaves", -7, 0, &result) == TANE_TRAP_EXIT);
	CHECK(result == -7);
	CHECK(value(instance, "quadruple", 1) == 4);
}

static void memory_is_copied_within_bounds(struct tane_instance *instance)
{
	uint64_t words = value(instance, "words", 0), start, end, at, last = 0;
	uint64_t constant = value(instance, "constant", 0);
	char text[16], *large = calloc(1, 1 << 20);
	int given = 0;

	CHECK(!tane_instance_write(instance, words, "12345678", 8));
	CHECK(!tane_instance_read(instance, words, text, 8));
	CHECK(!memcmp(text, "12345678", 8));
	CHECK(!tane_instance_read(instance, constant, text, 16));
	CHECK(!strcmp(text, "from the module"));
	CHECK(tane_instance_write(instance, constant, "x", 1) == -EFAULT);
	CHECK(tane_instance_read(instance, 0, text, 1) == -EFAULT);
	CHECK(tane_instance_read(instance, UINT64_MAX, text, 2) == -EFAULT);
	CHECK(tane_instance_read(instance, 1ULL << 32, text, 1) == -EFAULT);
	CHECK(!tane_instance_read(instance, words, NULL, 0));
	CHECK(!tane_instance_heap(instance, &start, &end));
	CHECK(end > start && (int64_t)start == value(instance, "heap", 0));
	CHECK(!tane_instance_write(instance, end - 1, "x", 1));
	CHECK(tane_instance_write(instance, end - 1, "xx", 2) == -EFAULT);
	CHECK(!tane_instance_give(instance, "some words", 11, &at));
	CHECK(!(at & 15) && value(instance, "length", at) == 10);
	while (!tane_instance_give(instance, large, 1 << 20, &last))
		given++;
	CHECK(given > 2 && given < 20);
	CHECK(value(instance, "length", at) == 10);
	free(large);
}

static struct tane_instance *shared;

static void *on_another_thread(void *closes)
{
	char byte;

	CHECK(tane_instance_call(shared, "words", NULL, 0, NULL) == -EPERM);
	CHECK(tane_instance_read(shared, 1 << 20, &byte, 1) == -EPERM);
	if (closes)
		tane_instance_close(shared);
	return NULL;
}

static void *stops(void *instance)
{
	usleep(20000);
	CHECK(!tane_instance_stop(instance));
	return NULL;
}

static void *has_its_own(void *kernel)
{
	struct tane_instance *instance = make((struct tane_instance_options){
		.kernel = kernel, .directory = "/" });

	/* A thread that has no stack for signals gets one. */
	for (int i = 0; i < 20; i++) {
		CHECK(call(instance, "deep", 0, 0, NULL) == TANE_TRAP_STACK);
		CHECK(value(instance, "quadruple", i) == 4 * i);
	}
	tane_instance_close(instance);
	return NULL;
}

static void an_instance_is_its_threads(struct tane_kernel *kernel)
{
	pthread_t threads[4];

	shared = make((struct tane_instance_options){
		.kernel = kernel, .directory = "/", .milliseconds = 3600000 });
	CHECK(!pthread_create(threads, NULL, on_another_thread, NULL));
	CHECK(!pthread_join(threads[0], NULL));
	CHECK(!pthread_create(threads, NULL, stops, shared));
	CHECK(call(shared, "for_ever", 0, 0, NULL) == TANE_TRAP_TIME);
	CHECK(call(shared, "for_ever", 0, 0, NULL) == TANE_TRAP_TIME);
	CHECK(!pthread_join(threads[0], NULL));
	/* All but its end. */
	CHECK(!pthread_create(threads, NULL, on_another_thread, kernel));
	CHECK(!pthread_join(threads[0], NULL));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(threads + i, NULL, has_its_own, kernel));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static void a_child_cannot_use_its_parents(struct tane_instance *instance)
{
	pid_t child = fork();
	int status;

	if (!child) {
		alarm(20);
		CHECK(tane_instance_call(instance, "words", NULL, 0, NULL) ==
		      -ENOTSUP);
		/* Neither hangs nor faults. */
		tane_instance_close(instance);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	CHECK(value(instance, "quadruple", 2) == 8);
}

static void it_reads_files_of_its_directory(struct tane_mount *mount,
					    struct tane_kernel *kernel)
{
	struct tane_instance *instance = make((struct tane_instance_options){
		.kernel = kernel, .directory = tane_mount_point(mount),
		.memory = 1 << 20 });
	uint64_t at, other;

	CHECK(!tane_instance_give(instance, "/hello", 7, &at));
	CHECK(!tane_instance_give(instance, "../proc/version", 16, &other));
	CHECK(value(instance, "count", at) == 7);
	CHECK(value(instance, "count", other) == -ENOENT);
	/* It holds the file system, as an open directory does. */
	tane_instance_close(instance);
}

static void sockets_take_no_directory(const char *path,
				      struct tane_kernel *kernel)
{
	const char *const calls[] = { "socket", NULL };
	struct tane_instance_options options = {
		.size = sizeof(options), .kernel = kernel
	};
	struct tane_instance *instance = NULL;
	struct tane_module *sockets;
	static char data[1 << 16];
	FILE *file = fopen(path, "rb");

	CHECK(file);
	CHECK(!tane_module_open(data, fread(data, 1, sizeof(data), file), &sockets));
	fclose(file);
	/* They are never given to who has not asked for them. */
	CHECK(tane_instance_new(sockets, &options, &instance) == -ENOSYS);
	CHECK(!instance && strstr(tane_error_message(), "calls on sockets"));
	options.calls = calls;
	CHECK(!tane_instance_new(sockets, &options, &instance));
	/* Numbers of a directory are no socket's, though there is none. */
	CHECK(value(instance, "make", 2) == 1);
	CHECK(value(instance, "make", 1) == -EAFNOSUPPORT);
	tane_instance_close(instance);
	tane_module_close(sockets);
}

static void in_a_jail_nothing_becomes_code(const char *image)
{
	const char *read[] = { image, NULL };
	struct tane_jail_options boots = {
		.size = sizeof(boots), .read = read, .flags = TANE_JAIL_BOOTS
	};
	const char *const calls[] = { "openat", "read", "close", NULL };
	struct tane_instance_options options = {
		.size = sizeof(options), .imports = imports, .import_count = 1
	};
	struct tane_instance *instance, *none = NULL;
	struct tane_kernel *kernel;
	pid_t child = fork();
	int status;

	if (!child) {
		instance = make((struct tane_instance_options){
			.calls = calls, .milliseconds = 100 });
		CHECK(call(instance, "words", 0, 0, NULL) == -ENOSYS);
		CHECK(tane_jail(&boots) >= 0);
		CHECK(!tane_kernel_boot(NULL, &kernel));
		CHECK(tane_instance_connect(instance, kernel, NULL) == -ENOSYS);
		CHECK(!tane_instance_connect(instance, kernel, "/"));
		CHECK(tane_instance_connect(instance, kernel, "/") == -EBUSY);
		CHECK(tane_jail(NULL) >= 0);
		options.kernel = kernel;
		options.directory = "/";
		CHECK(tane_instance_new(module, &options, &none) == -EPERM);
		CHECK(value(instance, "quadruple", 2) == 8);
		CHECK(call(instance, "divide", 1, 0, NULL) == TANE_TRAP_DIVIDE);
		CHECK(call(instance, "for_ever", 0, 0, NULL) == TANE_TRAP_TIME);
		tane_instance_close(instance);
		tane_kernel_close(kernel);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
}

static sigjmp_buf here;

static void back(int signal)
{
	siglongjmp(here, signal);
}

static void other_faults_are_whose_they_were(void)
{
	for (volatile int i = 0; i < 3; i++) {
		struct tane_kernel *kernel;
		struct tane_instance *instance;
		int fault;

		CHECK(!tane_kernel_boot(NULL, &kernel));
		instance = make((struct tane_instance_options){
			.kernel = kernel, .directory = "/" });
		CHECK(call(instance, "divide", 1, 0, NULL) == TANE_TRAP_DIVIDE);
		tane_instance_close(instance);
		/* With a kernel, and without one. */
		fault = sigsetjmp(here, 1);
		if (!fault)
			*(volatile int *)(uintptr_t)i = 1;
		CHECK(fault == SIGSEGV);
		tane_kernel_close(kernel);
		fault = sigsetjmp(here, 1);
		if (!fault)
			*(volatile int *)(uintptr_t)i = 1;
		CHECK(fault == SIGSEGV);
	}
}

int main(int argc, char **argv)
{
	struct tane_image_options image_options = {
		.size = sizeof(image_options)
	};
	struct tane_instance *instance;
	struct tane_kernel *kernel;
	struct tane_image *image;
	struct tane_mount *mount;
	static char data[1 << 20], code[1 << 20];
	size_t len;
	FILE *file;

	signal(SIGSEGV, back);
	if (argc != 4 || !(file = fopen(argv[1], "rb")))
		return 2;
	len = fread(data, 1, sizeof(data), file);
	fclose(file);
	what_breaks_a_rule_is_no_module(data, len);
	CHECK(!tane_module_open(data, len, &module));
	memcpy(code, data, len);
	memset(data, 0, len);
	a_module_says_what_it_has_and_needs();
	in_a_jail_nothing_becomes_code(getenv("TANE_IMAGE"));
	CHECK(!tane_kernel_boot(NULL, &kernel));
	what_it_imports_must_be_given(kernel);
	instance = make((struct tane_instance_options){
		.kernel = kernel, .directory = "/", .milliseconds = 100 });
	functions_are_called_and_call(instance);
	faults_are_results(instance);
	memory_is_copied_within_bounds(instance);
	an_instance_is_its_threads(kernel);
	a_child_cannot_use_its_parents(instance);
	CHECK(!tane_image_open(kernel, argv[2], &image_options, &image));
	CHECK(!tane_image_mount(image, NULL, NULL, &mount));
	it_reads_files_of_its_directory(mount, kernel);
	sockets_take_no_directory(argv[3], kernel);
	CHECK(!tane_unmount(mount));
	tane_image_close(image);
	tane_module_close(module);
	/* It keeps what it is of. */
	tane_kernel_close(kernel);
	CHECK(value(instance, "quadruple", 2) == 8);
	tane_instance_close(instance);
	tane_instance_close(NULL);
	tane_module_close(NULL);
	CHECK(!tane_module_open(code, len, &module));
	other_faults_are_whose_they_were();
	tane_module_close(module);
	return 0;
}
