// SPDX-License-Identifier: GPL-2.0-only
/* How many bytes are written by how many calls, and what else programs of each kind can do. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u64);
	__type(value, __u64);
} by_size SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} per_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 16 * sizeof(__u64));
} stacks SEC(".maps");

const volatile __u64 least = 2;
__u64 returned = 100;
__u64 allocations;
__u64 raw_allocations;
__u64 inside;
char first_bytes[16];

static __attribute__((noinline)) void count(void *map, const void *key)
{
	__u64 one = 1, *known = bpf_map_lookup_elem(map, key);

	if (known)
		__sync_fetch_and_add(known, one);
	else
		bpf_map_update_elem(map, key, &one, BPF_ANY);
}

SEC("kprobe/vfs_write")
int BPF_KPROBE(on_write, void *file, const char *data, __u64 size)
{
	__u32 slot = 2;
	__u64 *written = bpf_map_lookup_elem(&per_cpu, &slot);

	if (size < least)
		return 0;
	count(&by_size, &size);
	if (written)
		*written += size;
	bpf_probe_read_user(first_bytes, sizeof(first_bytes) - 1, data);
	bpf_get_stackid(ctx, &stacks, 0);
	bpf_printk("wrote %d", size);
	return 0;
}

SEC("kretprobe/vfs_write")
int BPF_KRETPROBE(on_written, long size)
{
	if (size > 0)
		__sync_fetch_and_add(&returned, size);
	return 0;
}

/* As events/kmem/kmem_cache_alloc/format has it. */
struct kmem_cache_alloc {
	__u64 common;
	__u64 call_site;
	__u64 ptr;
	__u64 bytes_req;
	__u64 bytes_alloc;
};

SEC("tracepoint/kmem/kmem_cache_alloc")
int on_allocation(struct kmem_cache_alloc *event)
{
	if (event->bytes_req && event->bytes_req <= event->bytes_alloc)
		__sync_fetch_and_add(&allocations, 1);
	return 0;
}

SEC("raw_tp/kmem_cache_alloc")
int on_raw_allocation(struct bpf_raw_tracepoint_args *event)
{
	if (event->args[1])
		__sync_fetch_and_add(&raw_allocations, 1);
	return 0;
}

SEC("kprobe/sys_getppid")
int on_getppid(void *ctx)
{
	__sync_fetch_and_add(&inside, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
