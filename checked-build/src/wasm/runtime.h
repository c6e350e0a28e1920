/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What functions that were WebAssembly stand on. Its memory is the module's heap: what lies
 * above its size cannot be accessed, by tane_heap_limit(). An address is compared with the
 * heap's end and not with that size, so that one comparison does for all offsets from it: what
 * an offset below SLACK can add is less than the pages behind the heap that nobody can access.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long s64;
typedef float f32;
typedef double f64;

#define PAGE 65536ul
#define SLACK 32768ul
#define INLINE static inline __attribute__((__always_inline__, __unused__))
#define COLD static __attribute__((__cold__, __noinline__, __noreturn__, __unused__))
#define UNUSED __attribute__((__unused__))
#define IMPORT(name) __asm__("tmod.import." name)
#define RARELY(x) __builtin_expect(!!(x), 0)

/* The linker's: where the heap begins. */
extern u8 __tmod_heap[];

void *memcpy(void *, const void *, u64);
void *memmove(void *, const void *, u64);
void *memset(void *, int, u64);

u64 import_heap_end(void) IMPORT("tane_heap_end");
s64 import_heap_limit(u64) IMPORT("tane_heap_limit");

/* In pages; and the last address that the heap could have, one for all of its life. */
static u32 memory_pages UNUSED;
static u32 memory_bound UNUSED;

COLD void trap_unreachable(void)
{
	__builtin_trap();
}

COLD void trap_memory(void)
{
	*(volatile char *)0 = 0;
	__builtin_trap();
}

COLD void trap_divide(void)
{
	volatile int one = 1, zero = 0;

	zero = one / zero;
	__builtin_trap();
}

COLD void trap_call(void)
{
	void (*volatile nobody)(void) = 0;

	nobody();
	__builtin_trap();
}

#define MEMORY ((u64)__tmod_heap)

INLINE u64 at(u32 address, u64 offset, u64 bytes)
{
	u64 end = (u64)address + offset + bytes;

	if (__builtin_constant_p(end) && end <= MEMORY_LEAST) {
		/* It is there from the beginning. */
	} else if (offset < SLACK) {
		if (RARELY(address > memory_bound))
			trap_memory();
	} else if (RARELY(end > memory_pages * PAGE)) {
		trap_memory();
	}
	return MEMORY + address + offset;
}

/* Of all that it touches, before it touches any. */
INLINE u8 *range(u32 address, u64 bytes)
{
	if (RARELY((u64)address + bytes > memory_pages * PAGE))
		trap_memory();
	return (u8 *)(MEMORY + address);
}

#define LOAD(name, type, result) \
	typedef type __attribute__((__may_alias__, __aligned__(1))) name##_as; \
	INLINE result name(u32 address, u64 offset) \
	{ \
		return *(const name##_as *)at(address, offset, sizeof(type)); \
	} \
	INLINE void name##_dropped(u32 address, u64 offset) \
	{ \
		(void)*(const volatile name##_as *)at(address, offset, sizeof(type)); \
	}
#define STORE(name, type, value) \
	typedef type __attribute__((__may_alias__, __aligned__(1))) name##_as; \
	INLINE void name(u32 address, u64 offset, value what) \
	{ \
		*(name##_as *)at(address, offset, sizeof(type)) = what; \
	}

LOAD(i32_load, u32, u32)
LOAD(i64_load, u64, u64)
LOAD(f32_load, f32, f32)
LOAD(f64_load, f64, f64)
LOAD(i32_load8_s, s8, s32)
LOAD(i32_load8_u, u8, u32)
LOAD(i32_load16_s, s16, s32)
LOAD(i32_load16_u, u16, u32)
LOAD(i64_load8_s, s8, s64)
LOAD(i64_load8_u, u8, u64)
LOAD(i64_load16_s, s16, s64)
LOAD(i64_load16_u, u16, u64)
LOAD(i64_load32_s, s32, s64)
LOAD(i64_load32_u, u32, u64)
STORE(i32_store, u32, u32)
STORE(i64_store, u64, u64)
STORE(f32_store, f32, f32)
STORE(f64_store, f64, f64)
STORE(i32_store8, u8, u32)
STORE(i32_store16, u16, u32)
STORE(i64_store8, u8, u64)
STORE(i64_store16, u16, u64)
STORE(i64_store32, u32, u64)

static u32 memory_most UNUSED;

/* What the module asks for at first, and the most that it may have: in pages. */
static void UNUSED memory_begin(u32 pages, u32 most)
{
	u64 end = import_heap_end(), room = end > MEMORY + PAGE ? end - MEMORY - PAGE : 0;

	/* A page of it stays out of reach, so that a step too far is told as what it is. */
	memory_bound = room;
	memory_most = room / PAGE < most ? room / PAGE : most;
	if (pages > memory_most || import_heap_limit(MEMORY + pages * PAGE))
		trap_memory();
	memory_pages = pages;
}

static u32 UNUSED memory_grow(u32 by)
{
	u32 was = memory_pages;

	if ((u64)was + by > memory_most)
		return -1;
	if (by && import_heap_limit(MEMORY + (was + by) * PAGE))
		return -1;
	memory_pages = was + by;
	return was;
}

INLINE void memory_fill(u32 to, u32 value, u32 bytes)
{
	memset(range(to, bytes), value, bytes);
}

INLINE void memory_copy(u32 to, u32 from, u32 bytes)
{
	u8 *source = range(from, bytes);

	memmove(range(to, bytes), source, bytes);
}

static void UNUSED memory_init(const u8 *data, u32 has, u32 to, u32 from, u32 bytes)
{
	u8 *target = range(to, bytes);

	if ((u64)from + bytes > has)
		trap_memory();
	memcpy(target, data + from, bytes);
}

INLINE u32 i32_div_s(u32 a, u32 b)
{
	if (RARELY(!b || (a == 0x80000000u && b == -1u)))
		trap_divide();
	return (s32)a / (s32)b;
}

INLINE u32 i32_div_u(u32 a, u32 b)
{
	if (RARELY(!b))
		trap_divide();
	return a / b;
}

INLINE u32 i32_rem_s(u32 a, u32 b)
{
	if (RARELY(!b))
		trap_divide();
	return b == -1u ? 0 : (s32)a % (s32)b;
}

INLINE u32 i32_rem_u(u32 a, u32 b)
{
	if (RARELY(!b))
		trap_divide();
	return a % b;
}

INLINE u64 i64_div_s(u64 a, u64 b)
{
	if (RARELY(!b || (a == 1ul << 63 && b == -1ul)))
		trap_divide();
	return (s64)a / (s64)b;
}

INLINE u64 i64_div_u(u64 a, u64 b)
{
	if (RARELY(!b))
		trap_divide();
	return a / b;
}

INLINE u64 i64_rem_s(u64 a, u64 b)
{
	if (RARELY(!b))
		trap_divide();
	return b == -1ul ? 0 : (s64)a % (s64)b;
}

INLINE u64 i64_rem_u(u64 a, u64 b)
{
	if (RARELY(!b))
		trap_divide();
	return a % b;
}

INLINE u32 i32_rotl(u32 a, u32 b)
{
	return a << (b & 31) | a >> (-b & 31);
}

INLINE u32 i32_rotr(u32 a, u32 b)
{
	return a >> (b & 31) | a << (-b & 31);
}

INLINE u64 i64_rotl(u64 a, u64 b)
{
	return a << (b & 63) | a >> (-b & 63);
}

INLINE u64 i64_rotr(u64 a, u64 b)
{
	return a >> (b & 63) | a << (-b & 63);
}

INLINE u32 i32_popcnt(u32 a)
{
	a -= a >> 1 & 0x55555555;
	a = (a & 0x33333333) + (a >> 2 & 0x33333333);
	return ((a + (a >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

INLINE u64 i64_popcnt(u64 a)
{
	return i32_popcnt(a) + i32_popcnt(a >> 32);
}

#define BITS(name, from, to) \
	INLINE to name(from value) \
	{ \
		to result; \
		__builtin_memcpy(&result, &value, sizeof(result)); \
		return result; \
	}

BITS(f32_of, u32, f32)
BITS(f64_of, u64, f64)
BITS(f32_bits, f32, u32)
BITS(f64_bits, f64, u64)

INLINE f32 f32_abs(f32 a)
{
	return f32_of(f32_bits(a) & 0x7fffffff);
}

INLINE f32 f32_neg(f32 a)
{
	return f32_of(f32_bits(a) ^ 0x80000000);
}

INLINE f32 f32_copysign(f32 a, f32 b)
{
	return f32_of((f32_bits(a) & 0x7fffffff) | (f32_bits(b) & 0x80000000));
}

INLINE f64 f64_abs(f64 a)
{
	return f64_of(f64_bits(a) & ~(1ul << 63));
}

INLINE f64 f64_neg(f64 a)
{
	return f64_of(f64_bits(a) ^ 1ul << 63);
}

INLINE f64 f64_copysign(f64 a, f64 b)
{
	return f64_of((f64_bits(a) & ~(1ul << 63)) | (f64_bits(b) & 1ul << 63));
}

/* There and back is not nothing: what is no number comes back quiet. */
INLINE f64 f64_promote(f32 a)
{
	f64 wide = a;

	__asm__("" : "+x"(wide));
	return wide;
}

/* A sum of two is quiet if one is not a number, as SSE has it. */
#define LEAST(t, bits, of) \
	INLINE t t##_min(t a, t b) \
	{ \
		if (a != a || b != b) \
			return a + b; \
		if (a == b) \
			return of(bits(a) | bits(b)); \
		return a < b ? a : b; \
	} \
	INLINE t t##_max(t a, t b) \
	{ \
		if (a != a || b != b) \
			return a + b; \
		if (a == b) \
			return of(bits(a) & bits(b)); \
		return a > b ? a : b; \
	}

LEAST(f32, f32_bits, f32_of)
LEAST(f64, f64_bits, f64_of)

/* Of what is below low, above high, or no number; both do not fit. */
#define TRUNCATE(name, from, to, as, low, high, least, most) \
	INLINE to name(from a) \
	{ \
		if (RARELY(!(a > (low) && a < (high)))) \
			trap_divide(); \
		return (as)a; \
	} \
	INLINE to name##_sat(from a) \
	{ \
		if (a != a) \
			return 0; \
		if (!(a > (low))) \
			return least; \
		return a < (high) ? (to)(as)a : (to)(most); \
	}

#define S32_MIN 0x80000000u
#define S32_MAX 0x7fffffffu
#define S64_MIN (1ul << 63)
#define S64_MAX (~0ul >> 1)

TRUNCATE(i32_trunc_f32_s, f32, u32, s32, -2147483904.f, 2147483648.f, S32_MIN, S32_MAX)
TRUNCATE(i32_trunc_f32_u, f32, u32, s64, -1.f, 4294967296.f, 0, -1)
TRUNCATE(i32_trunc_f64_s, f64, u32, s32, -2147483649., 2147483648., S32_MIN, S32_MAX)
TRUNCATE(i32_trunc_f64_u, f64, u32, s64, -1., 4294967296., 0, -1)
TRUNCATE(i64_trunc_f32_s, f32, u64, s64, -9223373136366403584.f, 9223372036854775808.f, S64_MIN,
	 S64_MAX)
TRUNCATE(i64_trunc_f32_u, f32, u64, u64, -1.f, 18446744073709551616.f, 0, -1)
TRUNCATE(i64_trunc_f64_s, f64, u64, s64, -9223372036854777856., 9223372036854775808., S64_MIN,
	 S64_MAX)
TRUNCATE(i64_trunc_f64_u, f64, u64, u64, -1., 18446744073709551616., 0, -1)

struct entry {
	/* Of its type, from 1; of nothing 0. */
	u32 type;
	void *function;
};
