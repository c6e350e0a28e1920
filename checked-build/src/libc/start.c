// SPDX-License-Identifier: GPL-2.0-only
/* What comes before main(), and what musl's assembly and its start are replaced by. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include "libc.h"
#include "pthread_impl.h"

hidden _Alignas(16) char __tane_thread[sizeof(struct pthread)];

int main(int argc, char **argv, char **envp);

typedef void constructor(int argc, char **argv, char **envp);

/* Where the linker has put constructors. */
extern hidden constructor *const __init_array_start[], *const __init_array_end[];

/* Which library's an object of C++ is, whose destructor is called at the end: there is one. */
hidden void *const __dso_handle = 0;

/* The linker makes this the module's main. */
int __tmod_main(int argc, char **argv)
{
	static size_t nothing[2];
	static char *no_environment[1];
	struct pthread *self = (void *)__tane_thread;
	char *name = argc && argv[0] ? argv[0] : "";

	__environ = no_environment;
	__progname = __progname_full = name;
	for (; *name; name++)
		if (*name == '/')
			__progname = name + 1;
	libc.auxv = nothing;
	libc.page_size = PAGESIZE;
	self->self = self;
	self->tid = 1;
	self->locale = &libc.global_locale;
	for (constructor *const *call = __init_array_start; call < __init_array_end; call++)
		(*call)(argc, argv, __environ);
	exit(main(argc, argv, __environ));
}

/* Nobody can be started. */
hidden int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
	return -ENOSYS;
}
