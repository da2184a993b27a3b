/* SPDX-License-Identifier: Apache-2.0
 * test_store.c - the reader of the variant store: what it must refuse, and that it refuses quietly. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "codegen/search/writer.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/generator/toy_family.h"
#include "variants/cpu.h"
#include "variants/store.h"

enum { MAX_FILE = 1 << 18 };

/* A store with one layer, and where its files are. */
struct fixture {
    struct mo_env env;
    char folder[64], signature[256], base[256];
    char index[512], json[512], object[512];
    int warnings;
};

static void count_warning(void *user, int level, const char *line) {
    struct fixture *f = user;
    (void)line;
    f->warnings += level == MOIRE_LOG_WARN;
}

static size_t slurp(const char *path, char *to) {
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, to, MAX_FILE);
    close(fd);
    assert_true(n > 0 && n < MAX_FILE);
    return (size_t)n;
}

static void spit(const char *path, const char *bytes, size_t n, mode_t mode) {
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    fchmod(fd, mode);
    close(fd);
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    moire_error err = {0};
    char cpu[MO_CPU_FOLDER], layer[MO_SHA256_HEX], bytes[4096];
    f->env = mo_env_default();
    toy_folder(f->folder);
    toy_signature(0, f->signature);
    if (toy_search(&f->env, f->folder, 1, "m", toy_families, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return -1;
    }
    mo_cpu_folder(cpu);
    mo_store_layer(f->signature, MO_ISA_BASE, layer);
    snprintf(f->base, sizeof f->base, "%s/v1/%s", f->folder, cpu);
    snprintf(f->index, sizeof f->index, "%s/%.2s/%s.best.json", f->base, layer, layer);
    struct mo_store_index index;
    if (mo_store_parse_index(bytes, slurp(f->index, bytes), &index, &err)) return -1;
    snprintf(f->json, sizeof f->json, "%s/%.2s/%s.json", f->base, index.best, index.best);
    snprintf(f->object, sizeof f->object, "%s/%.2s/%s.so", f->base, index.best, index.best);
    f->env.log = count_warning;
    f->env.log_user = f;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    toy_remove(f->folder);
    free(f);
    return 0;
}

/* Opens the store, looks the layer up twice; the second answer must be the first, without another log line.
 */
static bool served(struct fixture *f, struct mo_store_stats *stats) {
    struct mo_store *store;
    struct mo_variant v;
    f->warnings = 0;
    if (mo_store_open(&f->env, f->folder, &store, NULL)) return false;
    bool found = mo_store_find(store, f->signature, MO_ISA_BASE, &v);
    assert_int_equal(mo_store_find(store, f->signature, MO_ISA_BASE, &v), found);
    struct mo_store_stats s = mo_store_stats(store);
    assert_int_equal(s.found + s.missing + s.stale + s.damaged, 1);
    assert_int_equal(f->warnings, s.stale + s.damaged);
    if (stats) *stats = s;
    mo_store_close(store);
    return found;
}

/* Flips one bit of `count` bytes spread over a file: every time the entry is refused. */
static void flip_everywhere(struct fixture *f, const char *path, size_t count) {
    char *bytes = malloc(MAX_FILE);
    size_t n = slurp(path, bytes), step = n > count ? n / count : 1;
    for (size_t i = 0; i < n; i += step) {
        bytes[i] ^= (char)(1 << i % 8);
        spit(path, bytes, n, 0444);
        struct mo_store_stats stats = {0};
        assert_false(served(f, &stats));
        assert_int_equal(stats.damaged, 1);
        bytes[i] ^= (char)(1 << i % 8);
    }
    spit(path, bytes, n, 0444);
    assert_true(served(f, NULL));
    free(bytes);
}

static void flipped_bytes_are_refused(void **state) {
    struct fixture *f = *state;
    assert_true(served(f, NULL));
    flip_everywhere(f, f->index, 2000);
    flip_everywhere(f, f->json, 2000);
    flip_everywhere(f, f->object, 500);
}

static void truncated_files_are_refused(void **state) {
    struct fixture *f = *state;
    const char *paths[] = {f->index, f->json, f->object};
    char *bytes = malloc(MAX_FILE);
    for (int i = 0; i < 3; i++) {
        size_t n = slurp(paths[i], bytes);
        for (size_t keep = 0; keep < n; keep += n / 7 + 1) {
            spit(paths[i], bytes, keep, 0444);
            assert_false(served(f, NULL));
        }
        unlink(paths[i]);
        struct mo_store_stats stats = {0};
        assert_false(served(f, &stats));
        assert_int_equal(i == 0 ? stats.missing : stats.damaged, 1);
        bytes[n] = '\n'; /* and one byte too many */
        spit(paths[i], bytes, n + 1, 0444);
        assert_false(served(f, NULL));
        spit(paths[i], bytes, n, 0444);
        assert_true(served(f, NULL));
    }
    free(bytes);
}

/* chmod on `path` makes the entry (or the whole store) untrusted. */
static void refused_with_mode(struct fixture *f, const char *path, mode_t mode, mode_t back) {
    assert_int_equal(chmod(path, mode), 0);
    assert_false(served(f, NULL));
    assert_int_equal(chmod(path, back), 0);
    assert_true(served(f, NULL));
}

static void what_others_can_write_is_refused(void **state) {
    struct fixture *f = *state;
    char subfolder[512];
    snprintf(subfolder, sizeof subfolder, "%s", f->json);
    *strrchr(subfolder, '/') = 0;
    refused_with_mode(f, f->index, 0464, 0444);
    refused_with_mode(f, f->json, 0446, 0444);
    refused_with_mode(f, f->object, 0466, 0444);
    refused_with_mode(f, subfolder, 0775, 0755);
    refused_with_mode(f, f->base, 0757, 0755);
    refused_with_mode(f, f->folder, 0770, 0700);
}

static void files_of_another_user_are_refused(void **state) {
    struct fixture *f = *state;
    struct fault_sys other;
    fault_sys_init(&other);
    other.other_uid = 54321; /* as if we were somebody else: nothing here is ours or root's */
    if (geteuid()) {
        struct mo_store *store;
        struct mo_env env = f->env;
        env.sys = &other.table;
        assert_int_equal(mo_store_open(&env, f->folder, &store, NULL), MOIRE_ESTORE);
        return;
    }
    assert_int_equal(chown(f->object, 54321, 54321), 0);
    assert_false(served(f, NULL));
    assert_int_equal(chown(f->object, 0, 0), 0);
    assert_int_equal(chown(f->folder, 54321, 54321), 0);
    assert_false(served(f, NULL));
    assert_int_equal(chown(f->folder, 0, 0), 0);
    assert_true(served(f, NULL));
}

static void symbolic_links_are_refused(void **state) {
    struct fixture *f = *state;
    char moved[600], link_path[128];
    const char *paths[] = {f->index, f->json, f->object, f->base};
    for (int i = 0; i < 4; i++) {
        snprintf(moved, sizeof moved, "%s.moved", paths[i]);
        assert_int_equal(rename(paths[i], moved), 0);
        assert_int_equal(symlink(moved, paths[i]), 0);
        assert_false(served(f, NULL));
        unlink(paths[i]);
        assert_int_equal(rename(moved, paths[i]), 0);
    }
    snprintf(link_path, sizeof link_path, "%s-link", f->folder);
    assert_int_equal(symlink(f->folder, link_path), 0);
    struct mo_store *store;
    moire_error err;
    assert_int_equal(mo_store_open(&f->env, link_path, &store, &err), MOIRE_ESTORE);
    assert_non_null(strstr(err.message, "real path"));
    unlink(link_path);
    unlink(f->object); /* neither a folder nor a pipe in the place of a file */
    char *bytes = malloc(MAX_FILE);
    assert_int_equal(mkfifo(f->object, 0400), 0);
    assert_false(served(f, NULL));
    free(bytes);
}

/* A well-formed index by the writer itself, with one thing changed. */
static void write_index(struct fixture *f, int abi, int generator, const char *best) {
    struct mo_store_index x = {.abi = abi, .generator = generator, .isa = MO_ISA_BASE};
    struct mo_writer *w;
    snprintf(x.signature, sizeof x.signature, "%s", f->signature);
    snprintf(x.best, sizeof x.best, "%s", best);
    assert_int_equal(mo_writer_open(&f->env, f->folder, &w, NULL), MOIRE_OK);
    assert_int_equal(mo_writer_set(w, &x, NULL, 0, NULL), MOIRE_OK);
    mo_writer_close(w);
}

static void other_versions_are_stale(void **state) {
    struct fixture *f = *state;
    char best[MO_SHA256_HEX], *name = strrchr(f->json, '/') + 1;
    snprintf(best, sizeof best, "%.64s", name);
    struct mo_store_stats stats = {0};
    write_index(f, MO_KERNEL_ABI + 1, MO_GENERATOR_VERSION, best);
    assert_false(served(f, &stats));
    assert_int_equal(stats.stale, 1);
    write_index(f, MO_KERNEL_ABI, MO_GENERATOR_VERSION + 1, best);
    assert_false(served(f, &stats));
    assert_int_equal(stats.stale, 1);
    write_index(f, MO_KERNEL_ABI, MO_GENERATOR_VERSION, ""); /* nothing better than the generic kernel */
    assert_false(served(f, &stats));
    assert_int_equal(stats.missing, 1);
    memset(best, 'a', 64); /* points nowhere */
    write_index(f, MO_KERNEL_ABI, MO_GENERATOR_VERSION, best);
    assert_false(served(f, &stats));
    assert_int_equal(stats.damaged, 1);
}

/* An entry under another key, or the entry of another layer, is not taken. */
static void moved_entries_are_refused(void **state) {
    struct fixture *f = *state;
    char *bytes = malloc(MAX_FILE), path[512], best[MO_SHA256_HEX];
    memset(best, 'a', 64);
    best[64] = 0;
    snprintf(path, sizeof path, "%s/aa", f->base);
    mkdir(path, 0755);
    const char *from[] = {f->json, f->object}, *suffix[] = {".json", ".so"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/aa/%s%s", f->base, best, suffix[i]);
        spit(path, bytes, slurp(from[i], bytes), 0444);
    }
    write_index(f, MO_KERNEL_ABI, MO_GENERATOR_VERSION, best);
    struct mo_store_stats stats = {0};
    assert_false(served(f, &stats));
    assert_int_equal(stats.damaged, 1);
    free(bytes);
}

static void loads_without_memory_files(void **state) {
    struct fixture *f = *state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    fault.no_memfd = 1;
    f->env.sys = &fault.table;
    assert_true(served(f, NULL));
    f->env.sys = mo_sys_posix();
    assert_int_equal(fault_sys_live(&fault), 0);
    assert_int_equal(fault.opened, fault.closed);
}

static void missing_store_is_empty(void **state) {
    struct fixture *f = *state;
    char path[128];
    struct mo_store *store;
    struct mo_variant v;
    snprintf(path, sizeof path, "%s/not/there", f->folder);
    assert_int_equal(mo_store_open(&f->env, path, &store, NULL), MOIRE_OK);
    assert_false(mo_store_find(store, f->signature, MO_ISA_BASE, &v));
    mo_store_close(store);
    assert_int_equal(mo_store_open(&f->env, "", &store, NULL), MOIRE_ESTORE);
}

static int open_and_find(void *ctx) {
    struct fixture *f = ctx;
    struct mo_store *store;
    struct mo_variant v;
    int rc = mo_store_open(&f->env, f->folder, &store, NULL);
    if (rc) return rc;
    bool found = mo_store_find(store, f->signature, MO_ISA_BASE, &v);
    mo_store_close(store);
    return found ? MOIRE_OK : MOIRE_ENOMEM;
}

static void failing_allocations(void **state) {
    struct fixture *f = *state;
    struct fault_sys fault;
    fault_sys_init(&fault);
    f->env.sys = &fault.table;
    assert_true(fault_sys_sweep(&fault, open_and_find, f, MOIRE_OK) >= 5);
    f->env.sys = mo_sys_posix();
}

struct finder {
    struct fixture *f;
    const struct mo_store *store;
    bool found;
    void *run;
};

static void *find_in_thread(void *arg) {
    struct finder *x = arg;
    struct mo_variant v = {0};
    for (int i = 0; i < 100; i++)
        x->found = mo_store_find(x->store, x->f->signature, MO_ISA_BASE, &v);
    x->run = *(void **)&v.run;
    return NULL;
}

static void many_threads_share_one_answer(void **state) {
    struct fixture *f = *state;
    struct mo_store *store;
    assert_int_equal(mo_store_open(&f->env, f->folder, &store, NULL), MOIRE_OK);
    struct finder finder[4];
    struct mo_thread thread[4];
    for (int i = 0; i < 4; i++) {
        finder[i] = (struct finder){f, store, false, NULL};
        assert_int_equal(f->env.sys->thread_start(NULL, &thread[i], find_in_thread, &finder[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        f->env.sys->thread_join(NULL, thread[i]);
    for (int i = 0; i < 4; i++)
        assert_true(finder[i].found && finder[i].run == finder[0].run);
    assert_int_equal(mo_store_stats(store).found, 1);
    mo_store_close(store);
}

/* The ELF check meets every damaged header without reading outside the buffer (run under ASan), and what it
 * lets pass it decided on: here only that it returns. */
static void elf_check_survives_damage(void **state) {
    struct fixture *f = *state;
    char *file = malloc(MAX_FILE);
    size_t n = slurp(f->object, file);
    char *bytes = aligned_alloc(64, (n + 63) / 64 * 64);
    int refused = 0;
    for (size_t i = 0; i < n; i += i < 1024 ? 1 : 7) {
        memcpy(bytes, file, n);
        bytes[i] = (char)(bytes[i] ^ 0xff);
        refused += mo_elf_check(bytes, n, NULL) != MOIRE_OK;
    }
    memcpy(bytes, file, n);
    assert_int_equal(mo_elf_check(bytes, n, NULL), MOIRE_OK);
    for (size_t keep = 0; keep < n; keep += 97)
        refused += mo_elf_check(bytes, keep, NULL) != MOIRE_OK;
    assert_true(refused > 100);
    free(bytes);
    free(file);
}

static void signatures_are_exact(void **state) {
    struct fixture *f = *state;
    struct mo_graph *g = toy_graph(&f->env, 1, "x");
    struct mo_node *node = g->nodes[0];
    char a[256], b[256];
    assert_true(mo_layer_signature(g, node, a, sizeof a));
    assert_string_equal(a, f->signature);
    node->fuse = (struct mo_fuse){.act = MO_ACT_CLIP, .a = 0.1f, .b = 6, .residual = -1};
    assert_true(mo_layer_signature(g, node, a, sizeof a));
    assert_non_null(strstr(a, ":clip(0x1.99999ap-4,0x1.8p+2):"));
    node->fuse.a = 0x1.99999cp-4f; /* the next float */
    assert_true(mo_layer_signature(g, node, b, sizeof b));
    assert_string_not_equal(a, b);
    assert_false(mo_layer_signature(g, node, b, 40)); /* too small: nothing half-written */
    assert_string_equal(b, "");
    g->tensors[node->in[1]]->data = NULL; /* weights that are no constant have no specialised kernel */
    assert_false(mo_layer_signature(g, node, b, sizeof b));
    mo_graph_destroy(g);
}

/* Pieces of growing sizes, up to some megabytes; stops with an error before the end when there is to be one.
 */
enum { STREAM_BYTES = (5 << 20) + 3 };
struct pieces {
    const char *bytes;
    bool fails;
};

static int put_pieces(void *ctx, mo_writer_put *put, void *put_ctx, moire_error *err) {
    const struct pieces *p = ctx;
    for (size_t at = 0, n = 1; at < STREAM_BYTES; at += n, n = n * 3 + 1) {
        if (n > STREAM_BYTES - at) n = STREAM_BYTES - at;
        if (p->fails && n > 1 << 20) return mo_fail(err, MOIRE_EFAILED, "no more");
        int rc = put(put_ctx, p->bytes + at, n);
        if (rc) return rc;
    }
    return MOIRE_OK;
}

/* What is streamed arrives whole and in order; what fails half-way leaves nothing. */
static void streams_arrive_whole(void **state) {
    struct fixture *f = *state;
    char *bytes = malloc(STREAM_BYTES), *back = malloc(STREAM_BYTES + 1), path[512];
    struct pieces pieces = {.bytes = bytes, .fails = true};
    struct mo_writer *w;
    for (size_t i = 0; i < STREAM_BYTES; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    snprintf(path, sizeof path, "%s/ab/abc.bin", f->base);
    assert_int_equal(mo_writer_open(&f->env, f->folder, &w, NULL), MOIRE_OK);
    assert_int_equal(mo_writer_stream(w, "abc", ".bin", put_pieces, &pieces, NULL), MOIRE_EFAILED);
    assert_int_equal(access(path, F_OK), -1);
    pieces.fails = false;
    assert_int_equal(mo_writer_stream(w, "abc", ".bin", put_pieces, &pieces, NULL), MOIRE_OK);
    mo_writer_close(w);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fread(back, 1, STREAM_BYTES + 1, in), STREAM_BYTES);
    assert_memory_equal(back, bytes, STREAM_BYTES);
    fclose(in);
    free(bytes);
    free(back);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(flipped_bytes_are_refused),
        TEST(truncated_files_are_refused),
        TEST(what_others_can_write_is_refused),
        TEST(files_of_another_user_are_refused),
        TEST(symbolic_links_are_refused),
        TEST(other_versions_are_stale),
        TEST(moved_entries_are_refused),
        TEST(loads_without_memory_files),
        TEST(streams_arrive_whole),
        TEST(missing_store_is_empty),
        TEST(failing_allocations),
        TEST(many_threads_share_one_answer),
        TEST(elf_check_survives_damage),
        TEST(signatures_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
