// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes of code that other threads may run meanwhile. An instruction of several
 * bytes cannot be replaced at once: its first byte becomes int3, then its others are
 * written, then the first; who runs into the int3 does what the new instruction will
 * do (tane_breakpoint()). After each step every thread is made to read again.
 */
#include <linux/atomic.h>
#include <linux/bsearch.h>
#include <linux/memory.h>
#include <linux/mutex.h>
#include <linux/pfn.h>
#include <linux/string.h>
#include <asm/code.h>
#include <asm/nops.h>
#include <asm/sections.h>
#include <asm/text-patching.h>

static const u8 tane_nops[] = {
	BYTES_NOP1, BYTES_NOP2, BYTES_NOP3, BYTES_NOP4,
	BYTES_NOP5, BYTES_NOP6, BYTES_NOP7, BYTES_NOP8,
};

/* By length. */
const unsigned char * const x86_nops[ASM_NOP_MAX + 1] = {
	[1] = tane_nops,
	[2] = tane_nops + 1,
	[3] = tane_nops + 3,
	[4] = tane_nops + 6,
	[5] = tane_nops + 10,
	[6] = tane_nops + 15,
	[7] = tane_nops + 21,
	[8] = tane_nops + 28,
};

/* A change under way: what becomes of len bytes, and what who meets it does. */
struct tane_poke {
	u8 *at;
	u8 len;
	u8 opcode;			/* of what is done in its place */
	u8 text[POKE_MAX_OPCODE_SIZE];
	u8 *to;				/* where a jump or call goes */
};

/* By ascending addresses; under text_mutex. */
static struct tane_poke tane_pokes[128];
static int tane_nr_pokes;
/* Who looks at them, and 1 for him who makes the changes. */
static atomic_t tane_poke_users;

void text_poke_early(void *at, const void *text, size_t len)
{
	tane_open_code(at, len);
	memcpy(at, text, len);
	tane_close_code(at, len);
}

void *text_poke(void *at, const void *text, size_t len)
{
	lockdep_assert_held(&text_mutex);
	text_poke_early(at, text, len);
	return at;
}

void *text_poke_copy(void *at, const void *text, size_t len)
{
	mutex_lock(&text_mutex);
	text_poke(at, text, len);
	mutex_unlock(&text_mutex);
	return at;
}

void *text_poke_set(void *at, int byte, size_t len)
{
	mutex_lock(&text_mutex);
	tane_open_code(at, len);
	memset(at, byte, len);
	tane_close_code(at, len);
	mutex_unlock(&text_mutex);
	return at;
}

/* Every other change says it itself; protecting a page anew does no more. */
void text_poke_sync(void)
{
	tane_close_code(_stext, 1);
}

/* Of ftrace's trampolines create_trampoline() itself adjusts what is relative. */
void text_poke_apply_relocation(u8 *buf, const u8 * const from, size_t from_len,
				u8 *to, size_t to_len)
{
}

static int tane_compare(const void *key, const void *element)
{
	const struct tane_poke *poke = element;

	if (key < (void *)poke->at)
		return -1;
	return key > (void *)poke->at;
}

/* What the instruction that will be here does. False: an int3 of somebody else. */
static bool noinstr tane_do_instead(struct pt_regs *regs, struct tane_poke *poke)
{
	switch (poke->opcode) {
	case CALL_INSN_OPCODE:
		int3_emulate_call(regs, (unsigned long)poke->to);
		return true;
	case JMP32_INSN_OPCODE:
	case JMP8_INSN_OPCODE:
		int3_emulate_jmp(regs, (unsigned long)poke->to);
		return true;
	case RET_INSN_OPCODE:
		int3_emulate_ret(regs);
		return true;
	default:
		return false;
	}
}

int noinstr poke_int3_handler(struct pt_regs *regs)
{
	void *at = (void *)regs->ip - INT3_INSN_SIZE;
	struct tane_poke *poke;
	bool done;

	if (!raw_atomic_inc_not_zero(&tane_poke_users))
		return 0;
	poke = __inline_bsearch(at, tane_pokes, tane_nr_pokes,
				sizeof(*tane_pokes), tane_compare);
	done = poke && tane_do_instead(regs, poke);
	raw_atomic_dec(&tane_poke_users);
	return done;
}

static void tane_write_first(u8 *at, u8 byte)
{
	WRITE_ONCE(*at, byte);
}

void text_poke_finish(void)
{
	struct tane_poke *poke, *end = tane_pokes + tane_nr_pokes;
	u8 *start = tane_pokes->at;
	size_t len;

	lockdep_assert_held(&text_mutex);
	if (!tane_nr_pokes)
		return;
	len = end[-1].at + end[-1].len - start;
	/* What they consist of is there before anybody looks. */
	atomic_set_release(&tane_poke_users, 1);

	tane_open_code(start, len);
	for (poke = tane_pokes; poke < end; poke++)
		tane_write_first(poke->at, INT3_INSN_OPCODE);
	tane_open_code(start, len);
	for (poke = tane_pokes; poke < end; poke++)
		memcpy(poke->at + 1, poke->text + 1, poke->len - 1);
	tane_open_code(start, len);
	for (poke = tane_pokes; poke < end; poke++)
		tane_write_first(poke->at, poke->text[0]);
	tane_close_code(start, len);

	/* Who comes later finds that the int3 is gone. */
	if (!atomic_dec_and_test(&tane_poke_users))
		while (atomic_read(&tane_poke_users))
			cpu_relax();
	tane_nr_pokes = 0;
}

/*
 * What lies between two of them is opened with them. Among what is made (code.c) that
 * may be a module's data, which would be code then.
 */
static bool tane_is_apart(struct tane_poke *before, u8 *at)
{
	return at >= (u8 *)tane_made_start &&
	       PFN_DOWN((unsigned long)at) >
	       PFN_UP((unsigned long)before->at + before->len);
}

void text_poke_queue(void *at, const void *text, size_t len, const void *instead)
{
	struct tane_poke *poke;
	const u8 *insn = instead ?: text;

	lockdep_assert_held(&text_mutex);
	if (tane_nr_pokes == ARRAY_SIZE(tane_pokes) ||
	    (tane_nr_pokes && (tane_pokes[tane_nr_pokes - 1].at >= (u8 *)at ||
			       tane_is_apart(&tane_pokes[tane_nr_pokes - 1], at))))
		text_poke_finish();
	poke = tane_pokes + tane_nr_pokes++;
	poke->at = at;
	poke->len = len;
	memcpy(poke->text, text, len);
	poke->opcode = *insn;
	switch (*insn) {
	case CALL_INSN_OPCODE:
	case JMP32_INSN_OPCODE:
		poke->to = poke->at + len + *(s32 *)(insn + 1);
		break;
	case JMP8_INSN_OPCODE:
		poke->to = poke->at + len + *(s8 *)(insn + 1);
		break;
	case RET_INSN_OPCODE:
	case INT3_INSN_OPCODE:
		break;
	default:
		/* Of others, only those that do nothing. */
		if (WARN_ON_ONCE(memcmp(insn, x86_nops[len], len))) {
			tane_nr_pokes--;
			return;
		}
		poke->opcode = JMP32_INSN_OPCODE;
		poke->to = poke->at + len;
	}
}

void text_poke_bp(void *at, const void *text, size_t len, const void *instead)
{
	text_poke_queue(at, text, len, instead);
	text_poke_finish();
}
