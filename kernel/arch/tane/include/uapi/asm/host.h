/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The contract between the kernel image and the program that hosts it.
 *
 * Three things cross the boundary and nothing else:
 *   the gate             host -> kernel   struct tane_image, struct tane_vcpu
 *   the host operations  kernel -> host   struct tane_ops
 *   virtio queues        data             struct tane_virtio
 *
 * All structures live in memory that both sides see at the same address: the
 * RAM of the kernel, or the host area directly above it. Every function uses
 * the System V x86-64 calling convention on every host. Whoever changes a
 * layout or a meaning increments TANE_ABI_VERSION; the loader refuses an image
 * of another version or of other structure sizes.
 */
#ifndef _UAPI_ASM_TANE_HOST_H
#define _UAPI_ASM_TANE_HOST_H

#include <linux/types.h>

#define TANE_ABI_MAGIC		0x6c656e72656e6174ULL	/* "tanernel" */
#define TANE_ABI_VERSION	14

#define TANE_MAX_VCPUS		64
#define TANE_VCPU_SIZE		4096
#define TANE_MAX_DEVICES	48
#define TANE_MAX_QUEUES		8
#define TANE_CMDLINE_SIZE	2048

/*
 * Bits of tane_vcpu.pending: the interrupt lines of one virtual CPU. Anyone
 * may set a bit (atomically); only the kernel, on that virtual CPU, clears it.
 */
#define TANE_IRQ_TIMER		0	/* the deadline has passed */
#define TANE_IRQ_REQUEST	1	/* tane_vcpu.requests is not empty */
#define TANE_IRQ_RESCHEDULE	2	/* IPI */
#define TANE_IRQ_CALL		3	/* IPI */
#define TANE_IRQ_HOTPLUG	4	/* some tane_virtio.state changed */
#define TANE_IRQ_STOP		5	/* the kernel has ended: leave for the last time */
#define TANE_IRQ_DEVICE(slot)	(16 + (slot))

/*
 * One virtual CPU, a page of its own. The GS base of every thread that is inside
 * it is the first byte behind that page, or behind another mapping of it: what
 * comes there is the thread's own. Fields marked H are written by the host, K by
 * the kernel, both by both. The first cache line is what an undisturbed call
 * touches.
 */
struct tane_vcpu {
	__u64 self;		/* H  its own address */
	__u64 pending;		/* both  TANE_IRQ_ bits */
	__u64 bias;		/* H  the slot whose thread keeps the lock, 0 none */
	__u32 kicks;		/* H  other CPUs that its thread looks after outside */
	__u32 irq_enabled;	/* both  the interrupt flag; the host takes it to inject */
	__u64 kernel_sp;	/* both  the parked kernel stack, while nobody is inside */
	__u64 host_sp;		/* H  the stack of the host thread inside */
	__u64 switches;		/* K  context switches so far, the CPU's number on top */
	__u64 current_task;	/* K  struct task_struct; may be compared, never read */

	__u32 lock;		/* H  0 free, 1 held or kept */
	__u32 cpu;		/* H  its number */
	__u64 holder;		/* H  the thread inside, 0 if none: its id in the host,
				 * on top its process, see tane_thread.process
				 */
	__u32 online;		/* K  1 once the CPU may be entered */
	__u32 taken;		/* H  signals that reached a thread inside */
	__u64 percpu_offset;	/* K */
	__u64 requests;		/* both  list of posted struct tane_thread, newest first */
	__u64 deadline;		/* K  next timer interrupt, CLOCK_MONOTONIC ns; ~0 none */
	__u64 sleep_until;	/* H  when the service thread looks again, ns; 0: awake */
	__u64 in_user;		/* K  a host thread's task is parked here */
	__u32 kick;		/* both  futex of the service thread: a counter */
	__u32 streak;		/* H  calls in a row by the thread of regular */
	__u64 regular;		/* H  who called last */
	__u64 biased_at;	/* H  when it was last biased, CLOCK_MONOTONIC ns */
	__u32 patience;		/* H  the streak that makes it biased */
	__u32 relaxed;		/* K  cpu_relax() so far */
	__u32 spinners;		/* H  threads that look at pending all the time */
	__u32 waiters;		/* H  threads whose calls were blocked here last */
	__u64 program;		/* H  address of tane_image.program */
	__u64 caller;		/* H  struct tane_caller of the thread inside, or 0 */
	__u64 window;		/* K  where the current task's window is, or 0 */
	__u64 reserved[488];	/* the rest of the page */
};

/* States of a host thread's request slot (tane_thread.state, a futex). */
#define TANE_THREAD_IDLE	0	/* no request under way */
#define TANE_THREAD_POSTED	1	/* kernel: off the list, to be served */
#define TANE_THREAD_DONE	2	/* kernel: the result is in the slot */
#define TANE_THREAD_LINKED	3	/* host: a request is in the slot, and the slot
					 * in tane_vcpu.requests or about to be
					 */
#define TANE_THREAD_WANTED	4	/* kernel: its task waits on CPU vcpu for a thread of
					 * its own process to come in
					 */

/*
 * Requests beside system calls, in tane_thread.nr. A task that is attached with a
 * window has files, a root and a current directory of its own, copies at first; and
 * whatever it hands in, its calls read and write memory of these TANE_WINDOW_SIZE
 * bytes only.
 */
#define TANE_NR_ATTACH	0x74610001	/* args: the slot that gets a task; window or 0 */
#define TANE_NR_DETACH	0x74610002	/* this slot's task ends */
#define TANE_NR_BOOT	0x74610003	/* posted for process 1: done once it runs */
#define TANE_NR_FAULT	0x74610004	/* args: address in the user window, x86 error code */
#define TANE_NR_SPAWN	0x74610005	/* args[0]: the slot that gets a process of its own */
/* In a kernel that several processes of the host share (tane_boot.shared): */
#define TANE_NR_FORK	0x74610008	/* args: the slot of a copy of this process, and the
					 * host process that is going to be it
					 */
#define TANE_NR_REAP	0x74610009	/* args: a host process that is gone, as
					 * tane_thread.gone says of all its slots; its
					 * status as wait(2) gives it
					 */
/* Of a program's thread, whose registers say what it did, and of its memory as ptrace(2): */
#define TANE_NR_SIGNALS	0x74610006	/* it was called in: signals wait for it */
#define TANE_NR_TRAP	0x74610007	/* args: address, x86's error, vector; signal, its code */
#define TANE_NR_TEXT	0x7461000a	/* args: address, 48 bytes: see text.c */
#define TANE_NR_PEEK	0x7461000b	/* args: address, where to, bytes; how many it were */
#define TANE_NR_POKE	0x7461000c	/* the same; one store if in eight aligned bytes */
/* One host thread's request slot. Written by the host while IDLE or DONE. */
struct tane_thread {
	__u32 state;		/* both  futex */
	__u32 vcpu;		/* both  where its task was last current */
	__u64 task;		/* K  struct task_struct, 0 if none; H at the kernel's end */
	__u64 next;		/* both  link in tane_vcpu.requests */
	__s64 nr;		/* H */
	__u64 args[6];		/* H */
	__s64 ret;		/* K */
	__u32 sleeping;		/* H  the host thread waits on state */
	__u32 spin;		/* H  how long it looks before it sleeps, ns */
	__u64 owner;		/* H  the host thread, in the host's terms */
	__u32 inside;		/* H  1 while it is inside a CPU that it keeps */
	__u32 process;		/* H  whose thread it is: the number of a host process that
				 * shares this kernel, from 1; 0: nobody shares it
				 */
	__u64 program;		/* H  struct tane_program, 0: the thread never runs one */
	__u32 spinning;		/* H  1 + the CPU whose spinners it is among */
	__u32 gone;		/* H  1: that process has ended, its memory with it */
};

/*
 * A host thread that runs a program: the part of its registers that is in no
 * struct pt_regs. It lies in the host's memory.
 */
struct tane_program {
	__u64 regs;		/* K  struct pt_regs of its task: the program's registers */
	__u64 fs_base;		/* both  the program's */
	__u64 xstate;		/* H  its vector registers: XSAVE's standard format */
	__u64 xfeatures;	/* H  the components in there: 0 in a call by the gate */
	__u32 xstate_size;	/* H  bytes */
	__u32 tid;		/* K  its task's id */
	__u64 ran;		/* both  ns for which its code has run, on top of what the
				 * kernel has accounted and taken away
				 */
	__u32 traced;		/* K  1: it has a tracer, and all of its calls are to be
				 * posted: then its registers are the kernel's
				 */
	__u32 pad;
};

#define TANE_WINDOW_SIZE	(1ULL << 32)

/*
 * What a thread has that comes in by tane_image.program: the page below its
 * mapping of the virtual CPU, at the GS base - 2 * TANE_VCPU_SIZE. Memory of the
 * host, in no image's RAM.
 */
struct tane_caller {
	__u64 self;		/* H  its own address */
	__u64 slot;		/* H  its struct tane_thread */
	__u64 stack;		/* H  a stack of the host, see tane_image.program */
	__u64 serve;		/* H  a function of the host, see there */
	__u64 saved;		/* both  1: the vector registers are in xsave */
	__u64 regs[21];		/* K  the program's, in the order of struct pt_regs */
	__u64 reserved[6];
	__u8 xsave[2752];	/* K  64-byte aligned */
};

/* Protection bits of tane_ops.map: PROT_READ, PROT_WRITE, PROT_EXEC. */
#define TANE_PROT_READ	1
#define TANE_PROT_WRITE	2
#define TANE_PROT_EXEC	4

/* Queue numbers of tane_ops.notify that mean something else. */
#define TANE_NOTIFY_STATUS	0xffff	/* tane_virtio.status was written */
#define TANE_NOTIFY_STATE	0xfffe	/* tane_virtio.state was written */

/*
 * Host operations. The kernel calls them with its interrupt flag off or on,
 * from any thread that is inside; they run on the stack of the host thread,
 * except those marked "leaf", which run on a kernel stack and must be short.
 * None may block but where stated, none may enter the kernel.
 */
struct tane_ops {
	__u64 magic;
	__u32 version;
	__u32 size;
	void *host;		/* first argument of every operation */
	/* CLOCK_MONOTONIC and CLOCK_REALTIME in ns. Leaf. */
	__u64 (*monotonic)(void *host);
	__u64 (*realtime)(void *host);
	/* Fill buf with entropy; 0 or -errno. */
	int (*random)(void *host, void *buf, __u64 len);
	/*
	 * Show len bytes of RAM that start at physical address pa at address
	 * va of the vmalloc or user window; take whatever was there away. Or,
	 * with va the place of pa in RAM itself, change the protection there.
	 * A window shows frames from tane_boot.shown_start to shown_end only;
	 * -EINVAL for others.
	 */
	int (*map)(void *host, __u64 va, __u64 pa, __u64 len, __u32 prot);
	/*
	 * Make the range of a window inaccessible again. With va and len 0: what other
	 * processes that share this kernel have made so since this one looked.
	 */
	int (*unmap)(void *host, __u64 va, __u64 len);
	/* Give the frames back to the host: they read as zero afterwards. */
	int (*discard)(void *host, __u64 pa, __u64 len);
	/*
	 * The service thread of this virtual CPU shall look at it again, or the
	 * thread that calls when it is out, which tane_vcpu.kicks tells. Leaf.
	 */
	void (*kick)(void *host, __u32 cpu);
	/*
	 * Let another thread of the host run: this one has waited long. Kicks
	 * that were put off (tane_vcpu.kicks) are done now. Leaf.
	 */
	void (*yield)(void *host);
	/* Wake the host thread that waits on this slot. Leaf. */
	void (*wake)(void *host, struct tane_thread *thread);
	/* One piece of the kernel log, not terminated. */
	void (*log)(void *host, const char *text, __u64 len);
	/*
	 * The kernel is lost (code 1: panic or fault) or halted (code 0). The
	 * text says why. Returns, and the kernel leaves for the last time.
	 */
	void (*die)(void *host, __u32 code, const char *text, __u64 len);
	/*
	 * A virtio queue has new buffers (queue number), or the driver wrote
	 * status (TANE_NOTIFY_STATUS) or the transport state (TANE_NOTIFY_STATE).
	 * A status of 0 is a reset: when the call returns the device touches no
	 * queue memory any more (it may block).
	 */
	void (*notify)(void *host, __u32 slot, __u32 queue);
	/* A signal waits for a program's thread: it shall ask TANE_NR_SIGNALS. */
	void (*call_in)(void *host, struct tane_thread *thread);
	/*
	 * Another thread for the program of this one. It waits for an answer to
	 * TANE_NR_BOOT in its slot, which is posted, and then runs on with the
	 * registers that are there. NULL if the host has none.
	 */
	struct tane_thread *(*new_thread)(void *host, struct tane_thread *thread);
	/*
	 * This program's thread is not in its code, nor goes there before the kernel
	 * has answered its TANE_NR_SIGNALS. With wait 0 it is only told so; with 1 it
	 * is out when this returns, for which it may have to wait.
	 */
	void (*stop)(void *host, struct tane_thread *thread, __u32 wait);
};

/* The host fills it before the first entry; the kernel keeps its address. */
struct tane_boot {
	__u64 magic;
	__u32 version;
	__u32 size;
	__u64 base;		/* address of the image and of physical address 0 */
	__u64 ram_size;		/* bytes of RAM, the image included */
	__u64 vmalloc_start;	/* a reserved window of the address space */
	__u64 vmalloc_end;
	__u64 user_start;	/* another: where mmap() shows files and memory */
	__u64 user_end;
	/*
	 * The frames that map can show in a window. Those of the image's code and
	 * data lie before them: they are the image file's, changed or not. Those
	 * behind them are memory of their own: the kernel uses them while it
	 * boots, and gives them to nobody later.
	 */
	__u64 shown_start;
	__u64 shown_end;
	__u64 program_start;	/* a third window: the addresses of programs */
	__u64 program_end;	/* 0: none can run */
	/*
	 * The host's clock_gettime(2), of which CLOCK_MONOTONIC is what monotonic
	 * says: code that any thread may call anywhere, whatever its FS base, or 0.
	 */
	__u64 clock_gettime;
	/* What a program's system calls jump to, of every thread that runs one. */
	__u64 program_gate;
	__u32 nr_vcpus;
	__u32 randomised;	/* 1: base was drawn at random */
	__u32 shared;		/* the number of the host process that boots, if others
				 * are going to share this kernel; 0: it is its alone
				 */
	__u32 pad;
	struct tane_vcpu *vcpus;	/* nr_vcpus of them */
	struct tane_thread *init_thread;	/* the slot of process 1 */
	struct tane_virtio *virtio;	/* TANE_MAX_DEVICES of them */
	struct tane_ops *ops;
	char cmdline[TANE_CMDLINE_SIZE];
};

/* What the two gates give back in rax and rdx. */
struct tane_exit {
	__s64 ret;	/* TANE_EXIT_RETURNED: result of the system call */
	__u64 reason;
};

#define TANE_EXIT_RETURNED	0	/* only by tane_image.call */
#define TANE_EXIT_USER		1	/* a host thread's task is current */
#define TANE_EXIT_RUNNABLE	2	/* the same, and others want to run */
#define TANE_EXIT_IDLE		3	/* nothing to run */
#define TANE_EXIT_DEAD		4	/* never enter again */
#define TANE_EXIT_OUTSIDE	5	/* to serve() only: the call was not made */
#define TANE_EXIT_ELSEWHERE	6	/* what is current needs a thread of its own process */

/*
 * The first bytes of an image. Addresses are offsets from the image's start,
 * which is physical address 0 and tane_boot.base.
 */
struct tane_image {
	__u64 magic;
	__u32 version;
	__u32 size;		/* of this structure */
	__u32 vcpu_size;	/* sizes that host and kernel must agree on */
	__u32 thread_size;
	__u32 ops_size;
	__u32 boot_size;
	__u32 virtio_size;
	__u32 smp;		/* most virtual CPUs this image can use */
	__u64 text_start;	/* code, never written after loading */
	__u64 text_end;
	__u64 rodata_end;	/* constants from text_end; relocated, then read-only */
	__u64 data_end;		/* end of what the file holds */
	__u64 image_end;	/* end of bss */
	__u64 rela_start;	/* Elf64_Relr: the words to add the load address to */
	__u64 rela_end;
	/*
	 * The kernel is entered for the first time through start(), on virtual
	 * CPU 0, with GS base set, on the initial stack; it returns like enter().
	 *   struct tane_exit start(struct tane_vcpu *, struct tane_boot *)
	 */
	__u64 start;
	/*
	 * Do a system call for the task that is current on this virtual CPU, the
	 * one at the GS base. The caller holds the lock and has seen that
	 * current_task is its own. The registers are those of the instruction
	 * syscall: the number in rax, the arguments in rdi, rsi, rdx, r10, r8 and
	 * r9. Comes back with a struct tane_exit in rax and rdx; what a function
	 * need not preserve is lost.
	 */
	__u64 call;
	/*
	 * Resume what is parked: take pending interrupts and requests, run
	 * tasks until one leaves or none can run.
	 *   struct tane_exit enter(struct tane_vcpu *)
	 */
	__u64 enter;
	/*
	 * Where a host signal handler sends a thread it found in the kernel.
	 * The handler has put struct pt_regs on the kernel stack below rsp and
	 * set rsp to it, rdi to it too, rsi to the fault address and rdx to
	 * the page fault error code, x86's.
	 */
	__u64 trap_fault;	/* SIGSEGV, SIGBUS: rsi, rdx as said */
	__u64 trap_invalid;	/* SIGILL, SIGFPE, SIGTRAP: rsi the signal */
	__u64 trap_interrupt;	/* injected interrupt */
	__u64 banner;		/* the string linux_banner */
	__u64 extable_start;	/* for diagnosis only */
	__u64 extable_end;
	/*
	 * Bytes of struct page, which depend on the configuration. Linux puts
	 * one for each page of RAM at the end of RAM, and shows them nowhere
	 * else: the host puts tane_boot.shown_end at their start or before it.
	 */
	__u64 struct_page_size;
	/*
	 * A system call of a program or a module: reached by a jump, with the
	 * registers as the instruction syscall leaves them (number in rax, arguments
	 * in rdi, rsi, rdx, r10, r8, r9, the address to go on at in rcx, flags in
	 * r11), and with a struct tane_caller below the page of the virtual CPU. Goes
	 * on there with the result in rax; every other register is as it was, vector
	 * registers too, and no byte of the caller's stack was touched.
	 *
	 * That is all if the caller's thread keeps this virtual CPU (tane_vcpu.bias is
	 * its slot) and nothing comes between. Otherwise tane_caller.stack has, as
	 * the kernel leaves to it, eight words of which the last is the address of
	 * program_left below. From there, 16-byte aligned below these words,
	 *   __s64 serve(struct tane_caller *, __s64 ret, __u64 reason)
	 * is called, with what call() would have given back or, if the thread does not
	 * keep this virtual CPU, TANE_EXIT_OUTSIDE: then the host does the call, whose
	 * number and arguments are in regs. serve() gives the result, and may change
	 * regs; the GS base is the thread's again when it returns.
	 */
	__u64 program;
	__u64 program_left;
};

/* ---- virtio: a transport in shared memory ---- */

#define TANE_VIRTIO_EMPTY	0
#define TANE_VIRTIO_PRESENT	1	/* host: a device is here, bind it */
#define TANE_VIRTIO_BOUND	2	/* kernel: registered, probed, usable */
#define TANE_VIRTIO_REMOVE	3	/* host: take it away */
#define TANE_VIRTIO_FAILED	4	/* kernel: no driver took it */

struct tane_virtio_queue {
	__u64 desc;		/* K  physical addresses of the three rings */
	__u64 driver;
	__u64 device;
	__u16 size;		/* K  entries in use */
	__u16 size_max;		/* H */
	__u8 ready;		/* K  1: the fields above are valid */
	__u8 pad[3];
};

/* One device slot. The slot number is its interrupt line. */
struct tane_virtio {
	__u32 state;		/* both  futex, TANE_VIRTIO_ */
	__u32 device_id;	/* H  VIRTIO_ID_ */
	__u32 status;		/* both  VIRTIO_CONFIG_S_; K then notifies, H adds NEEDS_RESET */
	__u32 isr;		/* both  1: used buffers, 2: config changed; K takes all */
	__u64 device_features;	/* H */
	__u64 driver_features;	/* K */
	__u32 config_generation;	/* H  changes with every change of config */
	__u32 config_size;	/* H  bytes */
	__u32 nr_queues;	/* H */
	__u32 error;		/* K  errno of a failed binding */
	__u8 config[256];	/* both  the device type's structure, little endian */
	struct tane_virtio_queue queues[TANE_MAX_QUEUES];
};

#endif /* _UAPI_ASM_TANE_HOST_H */
