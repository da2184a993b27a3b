/* SPDX-License-Identifier: Apache-2.0
 * cc.c - running the C compiler: argument vectors only, never a shell; its output goes to a file of which
 * the first line is quoted.  Objects have no constructors (-nostartfiles) and a plain hash table, as the
 * loader's policy demands. */
#define _GNU_SOURCE
#include "codegen/search/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "runtime/base/text.h"

enum { PATH_CAP = 4400, MAX_ARGS = 40 };
static const int64_t ASK_NS = INT64_C(20000000000); /* for --version */

/* One table: the flags that are part of the key and of the command. */
static const char *const common_flags[] = {"-std=gnu11",
                                           "-O2",
                                           "-fPIC",
                                           "-fno-math-errno",
                                           "-ffp-contract=fast",
                                           "-fvisibility=hidden",
                                           "-fno-stack-protector",
                                           "-fno-asynchronous-unwind-tables",
                                           "-fomit-frame-pointer",
                                           "-w",
                                           "-shared",
                                           "-nostartfiles",
                                           "-Wl,--hash-style=sysv,--as-needed,--build-id=sha1",
                                           "-Wl,-z,noexecstack,-z,relro,-z,now,-z,defs",
                                           NULL};
#if defined(__x86_64__)
static const char *const isa_flags[MO_ISA_COUNT][3] = {
    {"-march=x86-64-v2"},
    {"-march=x86-64-v3"},
    {"-march=x86-64-v4", "-mprefer-vector-width=512"},
};
#else /* base is all that other processors are sure to have; AArch64 always has NEON */
static const char *const isa_flags[MO_ISA_COUNT][3] = {{NULL}};
#endif

/* Appends the flags of a level to argv; returns the new count. */
static int flags_for(enum mo_isa isa, const char **argv, int n) {
    for (int i = 0; common_flags[i]; i++)
        argv[n++] = common_flags[i];
    for (int i = 0; i < 3 && isa_flags[isa][i]; i++)
        argv[n++] = isa_flags[isa][i];
    return n;
}

void mo_cc_flags(enum mo_isa isa, char out[MO_STORE_TEXT]) {
    const char *argv[MAX_ARGS];
    int n = flags_for(isa, argv, 0);
    char text[1024];
    struct mo_text t = mo_text_in(text, sizeof text);
    for (int i = 0; i < n; i++)
        mo_text_put(&t, "%s%s", i ? " " : "", argv[i]);
    /* the text is long and nobody edits it: keep what tells levels apart readable, the rest as a digest */
    char hex[MO_SHA256_HEX];
    mo_sha256_hex(text, t.n, hex);
    snprintf(out, MO_STORE_TEXT, "-O2 %s #%.16s", isa_flags[isa][0] ? isa_flags[isa][0] : "", hex);
}

/* The first line of a file, printable characters only; "" when it cannot be read. */
static void first_line(const struct mo_env *env, const char *path, char *out, size_t cap) {
    const struct mo_sys *sys = env->sys;
    out[0] = 0;
    int fd = sys->open(sys->self, path, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0) return;
    ssize_t n = sys->read(sys->self, fd, out, cap - 1);
    sys->close(sys->self, fd);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    for (char *s = out; *s; s++)
        if ((unsigned char)*s < 32 || (unsigned char)*s > 126) *s = '?';
}

static int ask(const struct mo_env *env, const char *program, const char *work, struct mo_cc *out) {
    char log[PATH_CAP];
    snprintf(log, sizeof log, "%s/version", work);
    const char *const argv[] = {program, "--version", NULL};
    int rc = env->sys->spawn(env->sys->self, argv, log, ASK_NS);
    if (!rc) first_line(env, log, out->id, sizeof out->id);
    env->sys->unlink(env->sys->self, log);
    snprintf(out->program, sizeof out->program, "%s", program);
    return rc ? rc : out->id[0] ? 0 : 1;
}

int mo_cc_find(const struct mo_env *env, const char *wanted, const char *work, struct mo_cc *out,
               moire_error *err) {
    const char *const usual[] = {"gcc", "clang", "cc", NULL}, *const one[] = {wanted, NULL};
    for (const char *const *c = wanted ? one : usual; *c; c++)
        if (strlen(*c) < sizeof out->program && !ask(env, *c, work, out)) return MOIRE_OK;
    return mo_fail(err, MOIRE_ECOMPILER,
                   "no usable C compiler (tried %s): install gcc or clang, or name one with --cc; "
                   "without one the built-in kernels serve",
                   wanted ? wanted : "gcc, clang, cc");
}

int mo_cc_compile(const struct mo_env *env, const struct mo_cc *cc, enum mo_isa isa, const char *stem,
                  int64_t limit_ns, moire_error *err) {
    char source[PATH_CAP], object[PATH_CAP], log[PATH_CAP];
    snprintf(source, sizeof source, "%s.c", stem);
    snprintf(object, sizeof object, "%s.so", stem);
    snprintf(log, sizeof log, "%s.log", stem);
    const char *argv[MAX_ARGS] = {cc->program};
    int n = flags_for(isa, argv, 1);
    const char *const rest[] = {"-o", object, source, "-lm", NULL};
    for (int i = 0; rest[i]; i++)
        argv[n++] = rest[i];
    argv[n] = NULL;
    int rc = env->sys->spawn(env->sys->self, argv, log, limit_ns);
    if (!rc) return MOIRE_OK;
    char line[200];
    first_line(env, log, line, sizeof line);
    if (rc == -ETIMEDOUT)
        return mo_fail(err, MOIRE_ECOMPILER, "%.80s took longer than %lld s", cc->program,
                       (long long)(limit_ns / 1000000000));
    if (rc < 0) return mo_fail(err, MOIRE_ECOMPILER, "cannot run %.80s: %s", cc->program, strerror(-rc));
    return mo_fail(err, MOIRE_ECOMPILER, "%.80s failed with status %d: %s", cc->program, rc, line);
}
