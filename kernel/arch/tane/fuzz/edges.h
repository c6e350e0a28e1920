/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef TANE_FUZZ_EDGES_H
#define TANE_FUZZ_EDGES_H

/* What the compiler calls. */
void __sanitizer_cov_trace_pc(void);

#endif
