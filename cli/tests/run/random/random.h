/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the random program share. */
#ifndef RANDOM_H
#define RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A number below `below`; a child of fork() goes on from the same place. */
uint32_t roll(uint32_t below);
void seed_dice(uint64_t seed);

/* A line of output, with what is this process's in front. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The name of the error, or of success, of what returned `result`. */
const char *error_of(long result);

uint32_t sum_of(const void *bytes, size_t len);
void fill(void *bytes, size_t len);

/* Waits for that child, and tells how it ended. */
void tell_end(const char *what, pid_t child);

/* Says that the program itself cannot go on. */
void must(int holds, const char *what);

/* Some actions, chosen by the dice; what has a depth may fork others. */
void actions(int depth);

void do_files(void);
void do_descriptors(void);
void do_memory(void);
void do_shared_memory(void);
void do_faults(void);
void do_signals(void);
void do_timers(void);
void do_pipe(void);
void do_children(int depth);
void do_stops(void);
void do_exec(void);
void do_spawn(void);
void do_poll(void);
void do_threads(void);

#endif
