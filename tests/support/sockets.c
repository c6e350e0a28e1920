// SPDX-License-Identifier: GPL-2.0-only
/* A checked module with sockets, and no files. */
#include <tane/module.h>

long make(long domain)
{
	return socket(domain, 1, 0);
}
