/* SPDX-License-Identifier: Apache-2.0
 * elf_policy.c - which shared objects may be loaded as variants.
 *
 * A variant holds functions and one descriptor; it has no business running code while it is loaded, pulling
 * in other libraries, or asking for writable code.  This reads the file's bytes (never the file again) and
 * refuses everything else: wrong type or machine, W+X segments, executable stack, text relocations, RPATH,
 * constructors and destructors, IFUNCs, libraries other than libc/libm, unknown imports, other exports.
 * Every offset is checked before use; the symbol count comes from DT_HASH (`--hash-style=sysv`). */
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include "variants/store_format.h"

#if defined(__x86_64__)
enum { HOST_MACHINE = EM_X86_64 };
static const uint32_t host_relocations[] = {R_X86_64_RELATIVE, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT,
                                            R_X86_64_64};
#elif defined(__aarch64__)
enum { HOST_MACHINE = EM_AARCH64 };
static const uint32_t host_relocations[] = {R_AARCH64_RELATIVE, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT,
                                            R_AARCH64_ABS64};
#else
enum { HOST_MACHINE = EM_NONE }; /* no machine: every object is refused, generic kernels serve */
static const uint32_t host_relocations[] = {0};
#endif

/* What emitted C may call. */
static const char *const imports[] = {"memcpy", "memset", "memmove", "expf",  "tanhf", "erff", "fmaf",
                                      "fminf",  "fmaxf",  "floorf",  "ceilf", "sqrtf", NULL};
static const char *const libraries[] = {"libc.so.6", "libm.so.6", NULL};

struct image {
    const uint8_t *bytes;
    size_t n;
    const Elf64_Phdr *segments;
    int n_segments;
    uint64_t tag[DT_NUM]; /* values of the dynamic section's standard tags */
    bool seen[DT_NUM];
    uint64_t hash_symbols;
    moire_error *err;
};

static int refuse(const struct image *im, const char *why) {
    return mo_fail(im->err, MOIRE_ESTORE, "object refused: %s", why);
}

/* n bytes at file offset `at`, aligned for what is read there; NULL when out of the file. */
static const void *at_offset(const struct image *im, uint64_t at, uint64_t n) {
    return at <= im->n && n <= im->n - at && at % 8 == 0 ? im->bytes + at : NULL;
}

static const uint8_t *at_address(const struct image *im, uint64_t address, uint64_t n) {
    for (int i = 0; i < im->n_segments; i++) {
        const Elf64_Phdr *s = &im->segments[i];
        if (s->p_type != PT_LOAD || address < s->p_vaddr) continue;
        uint64_t at = address - s->p_vaddr;
        if (at > s->p_filesz || n > s->p_filesz - at) continue;
        if (s->p_offset > im->n || s->p_filesz > im->n - s->p_offset) return NULL;
        return im->bytes + s->p_offset + at;
    }
    return NULL;
}

/* A string of the dynamic string table; NULL when it does not end inside. */
static const char *string_at(const struct image *im, uint64_t offset) {
    uint64_t size = im->tag[DT_STRSZ];
    const uint8_t *table = at_address(im, im->tag[DT_STRTAB], size);
    if (!table || offset >= size || !memchr(table + offset, 0, size - offset)) return NULL;
    return (const char *)table + offset;
}

static bool listed(const char *name, const char *const *list) {
    for (; name && *list; list++)
        if (!strcmp(name, *list)) return true;
    return false;
}

static int check_header(struct image *im) {
    if (im->n < sizeof(Elf64_Ehdr)) return refuse(im, "too short");
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)im->bytes;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG)) return refuse(im, "not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_DYN)
        return refuse(im, "not a 64-bit little-endian shared object");
    if (HOST_MACHINE == EM_NONE || h->e_machine != HOST_MACHINE)
        return refuse(im, "made for another machine");
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum < 1 || h->e_phnum > 32)
        return refuse(im, "odd program headers");
    im->n_segments = h->e_phnum;
    im->segments = at_offset(im, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr));
    return im->segments ? MOIRE_OK : refuse(im, "program headers out of the file");
}

static int check_segments(const struct image *im) {
    bool stack = false;
    for (int i = 0; i < im->n_segments; i++) {
        const Elf64_Phdr *s = &im->segments[i];
        if (s->p_type == PT_INTERP) return refuse(im, "it names an interpreter");
        if (s->p_type == PT_TLS) return refuse(im, "it has thread-local storage");
        if ((s->p_flags & PF_W) && (s->p_flags & PF_X)) return refuse(im, "writable code");
        if (s->p_type == PT_GNU_STACK) stack = !(s->p_flags & PF_X);
        if (s->p_type == PT_LOAD && (s->p_filesz > s->p_memsz || s->p_memsz > 1u << 28))
            return refuse(im, "odd segment sizes");
    }
    return stack ? MOIRE_OK : refuse(im, "executable stack");
}

/* Collects the dynamic section's tags; libraries are checked once the string table is known. */
static int read_dynamic(struct image *im, const Elf64_Dyn **first, int *count) {
    for (int i = 0; i < im->n_segments; i++) {
        const Elf64_Phdr *s = &im->segments[i];
        if (s->p_type != PT_DYNAMIC) continue;
        if (*first) return refuse(im, "two dynamic sections");
        *first = at_offset(im, s->p_offset, s->p_filesz);
        const uint8_t *mapped = at_address(im, s->p_vaddr, s->p_filesz);
        if (!*first || (const void *)mapped != (const void *)*first) return refuse(im, "odd dynamic section");
        *count = (int)(s->p_filesz / sizeof(Elf64_Dyn));
    }
    for (int i = 0; i < *count; i++) {
        const Elf64_Dyn *d = &(*first)[i];
        if (d->d_tag == DT_NULL) return MOIRE_OK;
        if (d->d_tag < 0 || d->d_tag >= DT_NUM) continue;
        im->tag[d->d_tag] = d->d_un.d_val;
        im->seen[d->d_tag] = true;
    }
    return refuse(im, "no dynamic section, or one without an end");
}

static int check_tags(const struct image *im, const Elf64_Dyn *dynamic) {
    static const struct {
        int64_t tag;
        const char *why;
    } banned[] = {{DT_TEXTREL, "text relocations"}, {DT_RPATH, "RPATH"},
                  {DT_RUNPATH, "RUNPATH"},          {DT_INIT, "a constructor"},
                  {DT_FINI, "a destructor"},        {DT_INIT_ARRAY, "constructors"},
                  {DT_FINI_ARRAY, "destructors"},   {DT_PREINIT_ARRAY, "constructors"},
                  {DT_REL, "REL relocations"}};
    for (size_t i = 0; i < sizeof banned / sizeof *banned; i++)
        if (im->seen[banned[i].tag]) return refuse(im, banned[i].why);
    if (im->tag[DT_FLAGS] & (DF_TEXTREL | DF_STATIC_TLS)) return refuse(im, "text relocations or static TLS");
    for (const Elf64_Dyn *d = dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_NEEDED && !listed(string_at(im, d->d_un.d_val), libraries))
            return refuse(im, "it needs a library other than libc and libm");
        if (d->d_tag == DT_AUXILIARY || d->d_tag == DT_FILTER || d->d_tag == DT_RELR)
            return refuse(im, "filter library or packed relocations");
    }
    return MOIRE_OK;
}

static int check_symbols(struct image *im) {
    const uint8_t *hash = at_address(im, im->tag[DT_HASH], 8);
    if (!im->seen[DT_HASH] || !im->seen[DT_SYMTAB] || !im->seen[DT_STRTAB] || !hash)
        return refuse(im, "no symbol table");
    uint32_t n;
    memcpy(&n, hash + 4, sizeof n);
    const uint8_t *table = at_address(im, im->tag[DT_SYMTAB], (uint64_t)n * sizeof(Elf64_Sym));
    if (!table || n > 4096) return refuse(im, "odd symbol table");
    im->hash_symbols = n;
    bool found = false;
    for (uint32_t i = 1; i < n; i++) {
        Elf64_Sym s;
        memcpy(&s, table + i * sizeof s, sizeof s);
        const char *name = string_at(im, s.st_name);
        if (!name) return refuse(im, "odd symbol name");
        int type = ELF64_ST_TYPE(s.st_info), bind = ELF64_ST_BIND(s.st_info);
        if (type == STT_GNU_IFUNC || type == STT_TLS) return refuse(im, "an indirect or thread-local symbol");
        if (s.st_shndx == SHN_UNDEF && !listed(name, imports))
            return refuse(im, "an import that is not allowed");
        if (s.st_shndx == SHN_UNDEF || bind == STB_LOCAL) continue;
        if (strcmp(name, "mo_variant") || type != STT_OBJECT || s.st_size != sizeof(struct mo_variant))
            return refuse(im, "an export other than mo_variant");
        found = true;
    }
    return found ? MOIRE_OK : refuse(im, "no export mo_variant");
}

static int check_relocations(const struct image *im, int table_tag, int size_tag) {
    if (!im->seen[table_tag]) return MOIRE_OK;
    uint64_t bytes = im->tag[size_tag], n = bytes / sizeof(Elf64_Rela);
    const uint8_t *table = at_address(im, im->tag[table_tag], bytes);
    if (!table || n > 65536) return refuse(im, "odd relocations");
    for (uint64_t i = 0; i < n; i++) {
        Elf64_Rela r;
        memcpy(&r, table + i * sizeof r, sizeof r);
        bool known = false;
        for (size_t k = 0; k < sizeof host_relocations / sizeof *host_relocations; k++)
            known |= ELF64_R_TYPE(r.r_info) == host_relocations[k];
        if (!known || ELF64_R_SYM(r.r_info) >= im->hash_symbols)
            return refuse(im, "a relocation that is not allowed");
    }
    return MOIRE_OK;
}

int mo_elf_check(const void *bytes, size_t n, moire_error *err) {
    struct image im = {.bytes = bytes, .n = n, .err = err};
    if ((uintptr_t)bytes % 8) return refuse(&im, "misaligned buffer");
    const Elf64_Dyn *dynamic = NULL;
    int count = 0;
    int rc = check_header(&im);
    if (!rc) rc = check_segments(&im);
    if (!rc) rc = read_dynamic(&im, &dynamic, &count);
    if (!rc) rc = check_tags(&im, dynamic);
    if (!rc) rc = check_symbols(&im);
    if (!rc) rc = check_relocations(&im, DT_RELA, DT_RELASZ);
    if (!rc) rc = check_relocations(&im, DT_JMPREL, DT_PLTRELSZ);
    return rc;
}
