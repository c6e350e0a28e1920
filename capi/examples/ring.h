/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An io_uring of a kernel in this process: its two rings are that kernel's memory,
 * mapped here. As io_uring(7) has it, without a library: liburing would talk to
 * the host's kernel. One thread at a time. Results are negative errnos.
 */
#ifndef RING_H
#define RING_H

#include <errno.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <tane.h>

struct ring {
	struct tane_kernel *kernel;
	struct tane_file *file;
	struct tane_map *rings, *entries;
	struct io_uring_params params;
	unsigned int tail;	/* requests so far */
	unsigned int told;	/* of which the kernel knows */
	unsigned long calls;	/* of io_uring_enter(2) so far */
};

static inline unsigned int *ring_word(const struct ring *ring, uint32_t offset)
{
	return (unsigned int *)((char *)tane_map_data(ring->rings) + offset);
}

static inline int64_t ring_call(const struct ring *ring, int nr, uint64_t a,
				uint64_t b, uint64_t c, uint64_t d)
{
	return tane_syscall(ring->kernel, nr, a, b, c, d, 0, 0);
}

static inline void ring_close(struct ring *ring)
{
	tane_unmap(ring->entries);
	tane_unmap(ring->rings);
	tane_close(ring->file);
}

/* Room for so many requests at a time; flags: IORING_SETUP_ bits. */
static inline int ring_open(struct ring *ring, struct tane_kernel *kernel,
			    unsigned int entries, unsigned int flags)
{
	struct io_uring_params *p = &ring->params;
	uint64_t submissions, completions;
	int64_t fd;
	int error;

	memset(ring, 0, sizeof(*ring));
	ring->kernel = kernel;
	p->flags = flags;
	fd = ring_call(ring, SYS_io_uring_setup, entries, (uintptr_t)p, 0, 0);
	if (fd < 0)
		return fd;
	error = tane_fdopen(kernel, fd, &ring->file);
	if (error)
		return error;
	/* Both rings lie in one mapping since Linux 5.4. */
	submissions = p->sq_off.array + p->sq_entries * sizeof(unsigned int);
	completions = p->cq_off.cqes +
		      p->cq_entries * sizeof(struct io_uring_cqe);
	error = tane_map(ring->file, IORING_OFF_SQ_RING,
			 submissions > completions ? submissions : completions,
			 TANE_MAP_WRITE, &ring->rings);
	if (!error)
		error = tane_map(ring->file, IORING_OFF_SQES,
				 p->sq_entries * sizeof(struct io_uring_sqe),
				 TANE_MAP_WRITE, &ring->entries);
	if (error)
		ring_close(ring);
	return error;
}

/* what: IORING_REGISTER_; argument: an array of count of what it takes. */
static inline int ring_register(struct ring *ring, int what,
				const void *argument, unsigned int count)
{
	return ring_call(ring, SYS_io_uring_register, tane_fd(ring->file), what,
			 (uintptr_t)argument, count);
}

/* A request for the caller to fill in, all zero; NULL if the ring is full. */
static inline struct io_uring_sqe *ring_push(struct ring *ring)
{
	const struct io_sqring_offsets *sq = &ring->params.sq_off;
	struct io_uring_sqe *entry = tane_map_data(ring->entries);
	unsigned int head, place;

	head = __atomic_load_n(ring_word(ring, sq->head), __ATOMIC_ACQUIRE);
	if (ring->tail - head == ring->params.sq_entries)
		return NULL;
	place = ring->tail++ & (ring->params.sq_entries - 1);
	ring_word(ring, sq->array)[place] = place;
	return memset(entry + place, 0, sizeof(*entry));
}

static inline unsigned int ring_completed(const struct ring *ring)
{
	const struct io_cqring_offsets *cq = &ring->params.cq_off;

	return __atomic_load_n(ring_word(ring, cq->tail), __ATOMIC_ACQUIRE) -
	       *ring_word(ring, cq->head);
}

/* Let the kernel have what was pushed, and wait for so many completions. */
static inline int ring_submit(struct ring *ring, unsigned int completions)
{
	const struct io_sqring_offsets *sq = &ring->params.sq_off;
	int polled = ring->params.flags & IORING_SETUP_SQPOLL;
	unsigned int flags;
	int64_t taken;

	__atomic_store_n(ring_word(ring, sq->tail), ring->tail,
			 __ATOMIC_RELEASE);
	for (;;) {
		flags = 0;
		if (polled) {
			ring->told = ring->tail;
			/* Its thread says that it sleeps, then looks once more. */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (__atomic_load_n(ring_word(ring, sq->flags),
					    __ATOMIC_RELAXED) &
			    IORING_SQ_NEED_WAKEUP)
				flags |= IORING_ENTER_SQ_WAKEUP;
		}
		if (completions > ring_completed(ring))
			flags |= IORING_ENTER_GETEVENTS;
		if (ring->told == ring->tail && !flags)
			return 0;
		ring->calls++;
		taken = ring_call(ring, SYS_io_uring_enter, tane_fd(ring->file),
				  ring->tail - ring->told, completions, flags);
		if (taken < 0 && taken != -EINTR)
			return taken;
		if (taken > 0 && !polled)
			ring->told += taken;
	}
}

/* Take the oldest completion; 0 if there is none. */
static inline int ring_next(struct ring *ring, struct io_uring_cqe *completion)
{
	const struct io_cqring_offsets *cq = &ring->params.cq_off;
	struct io_uring_cqe *all = (void *)ring_word(ring, cq->cqes);
	unsigned int *head = ring_word(ring, cq->head);

	if (!ring_completed(ring))
		return 0;
	*completion = all[*head & (ring->params.cq_entries - 1)];
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return 1;
}

/* 0 if all that was read from the rings was the kernel's. */
static inline int ring_check(const struct ring *ring)
{
	int error = tane_map_check(ring->rings);

	return error ? error : tane_map_check(ring->entries);
}

#endif
