/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_OCI_SECCOMP_H
#define _ASM_TANE_OCI_SECCOMP_H

#include <asm/unistd.h>

/* For what Linux remembers of filters that allow a call whatever its arguments are. */
#define SECCOMP_ARCH_NATIVE		AUDIT_ARCH_X86_64
#define SECCOMP_ARCH_NATIVE_NR		NR_syscalls
#define SECCOMP_ARCH_NATIVE_NAME	"x86_64"

#include <asm-generic/seccomp.h>

#endif
