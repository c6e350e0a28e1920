/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's code for probes includes it and uses nothing of it. */
