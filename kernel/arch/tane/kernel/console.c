// SPDX-License-Identifier: GPL-2.0-only
/* The kernel log goes to the host, from the first line on. */
#include <linux/console.h>
#include <linux/init.h>
#include <asm/machine.h>
#include <asm/setup.h>

static void tane_console_write(struct console *con, const char *text,
			       unsigned int len)
{
	tane_host(log, text, len, 0, 0);
}

static struct console tane_console = {
	.name	= "host",
	.write	= tane_console_write,
	.flags	= CON_PRINTBUFFER | CON_ENABLED | CON_ANYTIME,
	.index	= -1,
};

void __init tane_console_init(void)
{
	register_console(&tane_console);
}
