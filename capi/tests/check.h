/* SPDX-License-Identifier: GPL-2.0-only */
/* What must be so in a test, or the program ends and says what was not. */
#ifndef TANE_TESTS_CHECK_H
#define TANE_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <tane.h>

#define CHECK(condition)						\
	do {								\
		if (condition)						\
			break;						\
		fprintf(stderr, "%s:%d: %s: not so (%s)\n", __FILE__,	\
			__LINE__, #condition, tane_error_message());	\
		exit(1);						\
	} while (0)

#endif
