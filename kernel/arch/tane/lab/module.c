// SPDX-License-Identifier: GPL-2.0-only
/*
 * What loading a module asks of an architecture. A module lies behind the text
 * (code.c), where 32 bits reach all of the kernel; its calls and data are found by
 * their distance (asm/compiler.h).
 *
 * A module's code is trusted as the kernel's is, its file is not: one that is cut off
 * or damaged is refused where its tables say what cannot be, before anything is done
 * that they say.
 */
#define pr_fmt(fmt) "module: " fmt

#include <linux/elf.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/moduleloader.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <asm/nops.h>

#define MODULE_MOST	((u64)CONFIG_TANE_LAB_CODE << 20)

/* Of those that x86-64 has, what compilers emit for code of this kind. */
enum {
	R_X86_64_32	= 10,
	R_X86_64_32S	= 11,
	R_X86_64_PC64	= 24,
};

static int tane_check_sections(const Elf_Ehdr *hdr, const Elf_Shdr *sechdrs,
			       const char *name)
{
	unsigned int i;

	for (i = 1; i < hdr->e_shnum; i++) {
		const Elf_Shdr *sec = &sechdrs[i];
		u64 align = sec->sh_addralign ?: 1;

		/* The loader keeps symbols and their names, too. */
		if (sec->sh_type == SHT_NULL ||
		    (!(sec->sh_flags & SHF_ALLOC) &&
		     sec->sh_type != SHT_SYMTAB && sec->sh_type != SHT_STRTAB))
			continue;
		if (!is_power_of_2(align) || align > PAGE_SIZE ||
		    sec->sh_size > MODULE_MOST) {
			pr_err("%s: section %u has %llu bytes, aligned to %llu\n",
			       name, i, sec->sh_size, align);
			return -ENOEXEC;
		}
	}
	return 0;
}

/* That their names end, and that they lie where their sections are. */
static int tane_check_symbols(const Elf_Ehdr *hdr, const Elf_Shdr *sechdrs,
			      const Elf_Shdr *symtab, const char *name)
{
	const Elf_Shdr *strtab = &sechdrs[symtab->sh_link];
	const Elf_Sym *sym = (void *)hdr + symtab->sh_offset;
	u64 i, count = symtab->sh_size / sizeof(*sym);

	if (!count || !strtab->sh_size ||
	    ((char *)hdr)[strtab->sh_offset + strtab->sh_size - 1]) {
		pr_err("%s: symbol names do not end\n", name);
		return -ENOEXEC;
	}
	for (i = 0; i < count; i++) {
		unsigned int section = sym[i].st_shndx;

		if (sym[i].st_name >= strtab->sh_size) {
			pr_err("%s: symbol %llu has no name\n", name, i);
			return -ENOEXEC;
		}
		if (section == SHN_UNDEF || section == SHN_ABS ||
		    section == SHN_COMMON)
			continue;
		if (section >= hdr->e_shnum ||
		    sym[i].st_value > sechdrs[section].sh_size) {
			pr_err("%s: symbol %llu is outside of section %u\n",
			       name, i, section);
			return -ENOEXEC;
		}
	}
	return 0;
}

/* Before sizes and names of the file are used. */
int module_frob_arch_sections(Elf_Ehdr *hdr, Elf_Shdr *sechdrs,
			      char *secstrings, struct module *mod)
{
	const char *name = "this file";
	unsigned int i;
	int error;

	if (strnlen(mod->name, sizeof(mod->name)) == sizeof(mod->name)) {
		pr_err("a name does not end\n");
		return -ENOEXEC;
	}
	if (mod->name[0])
		name = mod->name;
	error = tane_check_sections(hdr, sechdrs, name);
	/* There is one symbol table, and its names are in a table of strings. */
	for (i = 1; !error && i < hdr->e_shnum; i++)
		if (sechdrs[i].sh_type == SHT_SYMTAB)
			error = tane_check_symbols(hdr, sechdrs, &sechdrs[i],
						   name);
	return error;
}

/* How many bytes a kind writes; 0: not one of ours. */
static size_t tane_relocation_size(u64 type)
{
	switch (type) {
	case R_X86_64_64:
	case R_X86_64_PC64:
		return sizeof(u64);
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
	case R_X86_64_32:
	case R_X86_64_32S:
		return sizeof(u32);
	default:
		return 0;
	}
}

/* Does what is written mean the value again? */
static bool tane_fits(u64 type, u64 value)
{
	switch (type) {
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
	case R_X86_64_32S:
		return (s64)value == (s32)value;
	case R_X86_64_32:
		return value == (u32)value;
	default:
		return true;
	}
}

static int tane_relocate(const Elf_Rela *rel, void *at, u64 symbol)
{
	u64 type = ELF64_R_TYPE(rel->r_info);
	size_t size = tane_relocation_size(type);
	u64 value = symbol + rel->r_addend;

	if (type == R_X86_64_PC32 || type == R_X86_64_PLT32 ||
	    type == R_X86_64_PC64)
		value -= (u64)at;
	/* As arch/x86: a place is written once. */
	if (memchr_inv(at, 0, size)) {
		pr_err("invalid relocation target, existing value is nonzero for type %llu, loc %px, val %llx\n",
		       type, at, value);
		return -ENOEXEC;
	}
	if (!tane_fits(type, value)) {
		pr_err("overflow in relocation type %llu val %llx\n", type,
		       value);
		return -ENOEXEC;
	}
	memcpy(at, &value, size);
	return 0;
}

int apply_relocate_add(Elf64_Shdr *sechdrs, const char *strtab,
		       unsigned int symindex, unsigned int relsec,
		       struct module *mod)
{
	const Elf64_Shdr *target = &sechdrs[sechdrs[relsec].sh_info];
	const Elf64_Rela *rel = (void *)sechdrs[relsec].sh_addr;
	const Elf64_Sym *sym = (void *)sechdrs[symindex].sh_addr;
	u64 i, count = sechdrs[relsec].sh_size / sizeof(*rel);
	u64 symbols = sechdrs[symindex].sh_size / sizeof(*sym);

	for (i = 0; i < count; i++) {
		u64 which = ELF64_R_SYM(rel[i].r_info);
		u64 type = ELF64_R_TYPE(rel[i].r_info);
		size_t size = tane_relocation_size(type);
		int error;

		if (type == R_X86_64_NONE)
			continue;
		if (!size) {
			pr_err("%s: Unknown rela relocation: %llu\n", mod->name,
			       type);
			return -ENOEXEC;
		}
		if (which >= symbols || target->sh_size < size ||
		    rel[i].r_offset > target->sh_size - size) {
			pr_err("%s: relocation %llu of section %u is outside\n",
			       mod->name, i, relsec);
			return -ENOEXEC;
		}
		error = tane_relocate(&rel[i],
				      (void *)target->sh_addr + rel[i].r_offset,
				      sym[which].st_value);
		if (error)
			return error;
	}
	return 0;
}

static bool tane_is_text(struct module *mod, unsigned long address)
{
	return within_module_mem_type(address, mod, MOD_TEXT) ||
	       within_module_mem_type(address, mod, MOD_INIT_TEXT);
}

/*
 * Room for a call at each function's start, which the compiler leaves as five
 * instructions of one byte: xtask makes one of them in the image, this in a module,
 * whose code nobody runs yet.
 */
int module_finalize(const Elf_Ehdr *hdr, const Elf_Shdr *sechdrs,
		    struct module *mod)
{
	static const u8 apart[] = { 0x90, 0x90, 0x90, 0x90, 0x90 };
	unsigned int i;

	for (i = 0; i < mod->num_ftrace_callsites; i++) {
		unsigned long site = mod->ftrace_callsites[i];

		if (!tane_is_text(mod, site) ||
		    !tane_is_text(mod, site + sizeof(apart) - 1) ||
		    memcmp((void *)site, apart, sizeof(apart))) {
			pr_err("%s: no room for a call at %px\n", mod->name,
			       (void *)site);
			return -ENOEXEC;
		}
		memcpy((void *)site, x86_nops[sizeof(apart)], sizeof(apart));
	}
	return 0;
}
