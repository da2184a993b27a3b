/* SPDX-License-Identifier: Apache-2.0
 * test_compiled.c - compiled models in the store: they answer as the ONNX file does, are shared, and whatever
 * is wrong with one costs a line in the log and never a load. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/unit/base/fault_sys.h"
#include "models/zoo.h"
#include "runtime/plan/versions.h"
#include "runtime/serve/runtime.h"
#include "tools/moire/compile/publish.h"
#include "tools/moire/verb.h"
#include "tests/unit/base/machine_lines.h"
#include "tests/unit/generator/toy_family.h"
#include "variants/packed.h"

enum { INPUT = 32 * 32, CLASSES = 10, PATH_CAP = 512 };

static struct mo_env env;
static char folder[64], model[96], found[PATH_CAP];
static const char *wanted_suffix;
static int warnings;

static void count_warning(void *user, int level, const char *line) {
    (void)user;
    warnings += level <= MOIRE_LOG_WARN && !is_of_the_machine(line);
}

static int match(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)at;
    size_t n = strlen(path), k = strlen(wanted_suffix);
    if (type != FTW_F || n < k || strcmp(path + n - k, wanted_suffix) != 0) return 0;
    snprintf(found, sizeof found, "%s", path);
    return 1;
}

/* Path of the first file with this suffix in the store; "" when there is none. */
static const char *find(const char *suffix) {
    found[0] = 0;
    wanted_suffix = suffix;
    nftw(folder, match, 16, FTW_PHYS);
    wanted_suffix = NULL;
    return found;
}

static struct mo_compiled_request request_of(void) {
    return (struct mo_compiled_request){.path = model, .isa = mo_isa_detect()};
}

/* Path of the stamp that serve() looks for: publish() may leave another, for the shapes spelled out. */
static const char *find_stamp(void) {
    struct mo_compiled_request request = request_of();
    char name[MO_SHA256_HEX], file[MO_SHA256_HEX + sizeof MO_STAMP_SUFFIX];
    moire_error err;
    assert_int_equal(mo_compiled_stamp(&env, &request, name, &err), MOIRE_OK);
    snprintf(file, sizeof file, "%s" MO_STAMP_SUFFIX, name);
    return find(file);
}

static int publish(const struct mo_env *with, struct mo_published *out) {
    moire_error err = {0};
    struct mo_compiled_request request = request_of();
    int rc = mo_publish(with, folder, &request, NULL, out, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    return rc;
}

/* Loads and runs the model; true when it came from the store. */
static bool serve(float *to) {
    static float x[INPUT];
    moire_config config;
    moire_runtime *rt;
    moire_tenant *t;
    moire_error err = {0};
    moire_tensor in = {.dtype = MOIRE_F32, .rank = 4, .shape = {1, 1, 32, 32}, .data = x, .bytes = sizeof x},
                 out = {.data = to, .bytes = CLASSES * sizeof *to};
    for (int i = 0; i < INPUT; i++)
        x[i] = (float)(i % 17) / 17;
    moire_config_init(&config);
    config.store = folder;
    config.threads = 1;
    config.no_pin = 1;
    config.log = count_warning;
    warnings = 0;
    assert_int_equal(mo_runtime_create(&config, &env, 0, &rt, &err), MOIRE_OK);
    int rc = moire_load(rt, model, NULL, &t, &err);
    if (rc) fprintf(stderr, "%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    assert_int_equal(moire_run(t, &in, 1, &out, 1, &err), MOIRE_OK);
    bool compiled = t->compiled.file.bytes != NULL;
    moire_runtime_destroy(rt, 0);
    return compiled;
}

/* A folder with the model in it and nothing in the store. */
static int set_up(void **state) {
    moire_error err;
    (void)state;
    env = mo_env_default();
    toy_folder(folder);
    snprintf(model, sizeof model, "%s/lenet.onnx", folder);
    return mo_zoo_build(&env, mo_zoo_find("lenet"), MO_ZOO_SEED, model, NULL, &err);
}

static int tear_down(void **state) {
    (void)state;
    toy_remove(folder);
    return 0;
}

static void must_equal(const float *want, const float *got) {
    assert_memory_equal(want, got, CLASSES * sizeof *want);
}

static void stored_model_answers_as_onnx(void **state) {
    (void)state;
    float want[CLASSES], got[CLASSES];
    struct mo_published done;
    assert_false(serve(want));
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_false(done.reused);
    assert_true(done.packed_bytes > 200000 && done.bytes > done.packed_bytes);
    assert_true(serve(got));
    assert_int_equal(warnings, 0);
    must_equal(want, got);
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_true(done.reused);
}

/* A model that comes with its times is not run at load: who measures it must give it an input and memory. */
static void stored_model_is_profiled(void **state) {
    (void)state;
    struct mo_published done;
    char file[128];
    struct stat st;
    char *argv[] = {"profile", model,       "--store", folder,          "--output",
                    folder,    "--threads", "1",       "--repetitions", "2"};
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_int_equal(mo_verb_call(&env, &mo_verb_profile, sizeof argv / sizeof *argv, argv), MO_EXIT_OK);
    snprintf(file, sizeof file, "%s/lenet.csv", folder);
    assert_int_equal(stat(file, &st), 0);
    assert_true(st.st_size > 0);
}

/* Weights are in the file once: what is packed is hollow, and nothing reads it. */
static void weights_are_kept_once(void **state) {
    (void)state;
    struct mo_published done;
    struct stat onnx, image;
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_int_equal(stat(model, &onnx), 0);
    assert_int_equal(stat(find(MO_MODEL_SUFFIX), &image), 0);
    assert_int_equal(image.st_mode & 0777, 0444);
    if (image.st_size >= onnx.st_size + onnx.st_size / 2)
        fail_msg("ONNX %lld bytes, compiled %lld, of these packed %lld", (long long)onnx.st_size,
                 (long long)image.st_size, (long long)done.packed_bytes);
}

static void changed_file_is_another_model(void **state) {
    (void)state;
    float want[CLASSES], got[CLASSES];
    struct mo_published done;
    struct stat before;
    serve(want);
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_int_equal(stat(model, &before), 0);
    /* written, with the time of modification put back */
    int fd = open(model, O_RDWR);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, before.st_size / 2), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, before.st_size / 2), 1);
    assert_int_equal(futimens(fd, (struct timespec[]){before.st_atim, before.st_mtim}), 0);
    assert_false(serve(got));
    assert_int_equal(warnings, 0);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, before.st_size / 2), 1);
    close(fd);
    assert_false(serve(got));
    must_equal(want, got);
    assert_int_equal(publish(&env, &done), MOIRE_OK); /* same contents: only a new stamp */
    assert_true(serve(got));
    must_equal(want, got);
}

static size_t slurp(const char *path, char **bytes) {
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_int_equal(fstat(fd, &st), 0);
    *bytes = malloc((size_t)st.st_size);
    assert_int_equal(read(fd, *bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    return (size_t)st.st_size;
}

static void spit(const char *path, const char *bytes, size_t n, mode_t mode) {
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, bytes, n), n);
    fchmod(fd, mode);
    close(fd);
}

/* The model loads from ONNX, after exactly one line. */
static void must_be_skipped(const float *want) {
    float got[CLASSES];
    assert_false(serve(got));
    assert_int_equal(warnings, 1);
    must_equal(want, got);
}

static void bad_files_are_skipped(void **state) {
    (void)state;
    float want[CLASSES], got[CLASSES];
    struct mo_published done;
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_true(serve(want));
    for (int f = 0; f < 2; f++) {
        char path[PATH_CAP], *bytes;
        snprintf(path, sizeof path, "%s", f ? find_stamp() : find(MO_MODEL_SUFFIX));
        size_t n = slurp(path, &bytes);
        const size_t at[] = {0, 9, 30, 50, n / 3, n / 2, n - 1};
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            bytes[at[i] % n] ^= 4;
            spit(path, bytes, n, 0444);
            must_be_skipped(want);
            bytes[at[i] % n] ^= 4;
            spit(path, bytes, at[i] ? at[i] % n : 1, 0444); /* truncated */
            must_be_skipped(want);
        }
        spit(path, bytes, n, 0666); /* anybody may write */
        must_be_skipped(want);
        spit(path, bytes, n, 0644); /* we may write: not shared, and good */
        assert_true(serve(got));
        must_equal(want, got);
        if (geteuid() == 0) {
            assert_int_equal(chown(path, 12345, 12345), 0);
            must_be_skipped(want);
        }
        unlink(path);
        assert_int_equal(symlink("/etc/passwd", path), 0);
        must_be_skipped(want);
        spit(path, bytes, n, 0444);
        assert_true(serve(got));
        free(bytes);
    }
    unlink(find(MO_MODEL_SUFFIX));
    must_be_skipped(want);
}

/* Damage behind a checksum that is right: an error or a graph, never a crash. */
static void mutated_images_do_no_harm(void **state) {
    (void)state;
    struct mo_published done;
    char *bytes, key[MO_IMAGE_KEY];
    unsigned seed = 7;
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    size_t n = slurp(find(MO_MODEL_SUFFIX), &bytes);
    char *image = aligned_alloc(64, n);
    int refused = 0, rounds = 3000;
    for (int i = 0; i < rounds; i++) {
        struct mo_image_times times;
        struct mo_graph *graph;
        memcpy(image, bytes, n);
        struct mo_image_head *head = (struct mo_image_head *)image;
        memcpy(key, head->key, sizeof key);
        char *meta = (char *)(head + 1);
        for (int k = 1 + rand_r(&seed) % 3; k > 0; k--) /* a byte of a word, mostly a low one */
            meta[((size_t)rand_r(&seed) % (head->meta_bytes / 8)) * 8 + (size_t)rand_r(&seed) % 8 / 3] =
                (char)rand_r(&seed);
        if (i % 7 == 0) head->meta_bytes = (uint64_t)rand_r(&seed) % (head->meta_bytes + 1);
        mo_sum_init(&head->sum);
        mo_sum_add(&head->sum, head + 1, head->data_offset - sizeof *head);
        int rc = mo_image_load(&env, image, n, key, &graph, &times, NULL);
        refused += rc == MOIRE_ESTORE;
        if (rc)
            assert_int_equal(rc, MOIRE_ESTORE);
        else
            mo_graph_destroy(graph);
    }
    assert_in_range(refused, rounds / 4, rounds);
    free(image);
    free(bytes);
}

/* The one change of a byte that a checksum may not miss: all of them. */
static void every_byte_is_covered(void **state) {
    (void)state;
    struct mo_published done;
    struct mo_image_times times;
    struct mo_graph *graph;
    char *bytes, key[MO_IMAGE_KEY];
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    size_t n = slurp(find(MO_MODEL_SUFFIX), &bytes);
    char *image = aligned_alloc(64, n);
    memcpy(image, bytes, n);
    memcpy(key, ((struct mo_image_head *)image)->key, sizeof key);
    assert_int_equal(mo_image_load(&env, image, n, key, &graph, &times, NULL), MOIRE_OK);
    mo_graph_destroy(graph);
    assert_int_equal(mo_image_check(image, n, key, NULL), MOIRE_OK);
    const size_t data = ((struct mo_image_head *)image)->data_offset;
    for (size_t at = 0; at < n; at += n / 997) {
        if (at >= sizeof(struct mo_image_head) - 24 && at < sizeof(struct mo_image_head)) continue; /* pad */
        image[at] ^= (char)(1 << at % 8);
        assert_int_equal(mo_image_check(image, n, key, NULL), MOIRE_ESTORE);
        if (at < data)
            assert_int_equal(mo_image_load(&env, image, n, key, &graph, &times, NULL), MOIRE_ESTORE);
        image[at] ^= (char)(1 << at % 8);
    }
    free(image);
    free(bytes);
}

/* An image of `bytes` bytes of data, all right. */
static char *make_image(size_t bytes, size_t *n) {
    const size_t parts = mo_image_parts(bytes), sums = parts * sizeof(struct mo_sum);
    *n = sizeof(struct mo_image_head) + sums + bytes;
    char *image = aligned_alloc(64, *n);
    struct mo_image_head *head = (struct mo_image_head *)image;
    *head = (struct mo_image_head){.magic = "MOIREIMG", .format = MO_IMAGE_FORMAT, .endian = 0x01020304};
    head->bytes = *n;
    head->data_offset = sizeof *head + sums;
    char *data = image + head->data_offset;
    struct mo_sum *sum = (struct mo_sum *)(head + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < parts; i++) {
        const size_t at = i * MO_IMAGE_PART, left = bytes - at;
        mo_sum_init(&sum[i]);
        mo_sum_add(&sum[i], data + at, left < MO_IMAGE_PART ? left : MO_IMAGE_PART);
    }
    head->sum = mo_image_sum(head, sum, sums);
    return image;
}

static int check_by_two(const char *image) {
    struct mo_image_checking c;
    mo_image_check_begin(&env, image, true, &c);
    return mo_image_check_end(&c, NULL);
}

/* One byte of any part, seen by one thread as by two; and a check that is left midway. */
static void parts_are_checked_by_two(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 64, MO_IMAGE_PART - 64, MO_IMAGE_PART, 5 * MO_IMAGE_PART + 128};
    const char key[MO_IMAGE_KEY] = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n;
        char *image = make_image(sizes[i], &n), *data = image + n - sizes[i];
        assert_int_equal(mo_image_check(image, n, key, NULL), MOIRE_OK);
        assert_int_equal(check_by_two(image), MOIRE_OK);
        for (size_t k = 0; sizes[i] && k < 12; k++) {
            char *at = &data[k < 11 ? sizes[i] / 11 * k : sizes[i] - 1];
            *at ^= 1;
            assert_int_equal(mo_image_check(image, n, key, NULL), MOIRE_ESTORE);
            assert_int_equal(check_by_two(image), MOIRE_ESTORE);
            *at ^= 1;
        }
        struct mo_image_checking c;
        mo_image_check_begin(&env, image, true, &c);
        mo_image_check_leave(&c);
        mo_image_check_leave(&c);
        free(image);
    }
}

/* Opens the stored model and makes its plan. */
static int open_plan(const struct mo_env *with) {
    struct mo_store *store;
    struct mo_compiled compiled = {0};
    struct mo_plan *plan = NULL;
    struct mo_compiled_request request = request_of();
    int rc = mo_store_open(with, folder, &store, NULL);
    if (rc) return rc;
    rc = mo_compiled_open(store, with, &request, true, &compiled, NULL);
    if (!rc && !compiled.graph) rc = MOIRE_ESTORE;
    if (!rc) {
        struct mo_plan_options options = {.isa = request.isa, .store = store};
        rc = mo_plan_build(compiled.graph, &options, &plan, NULL);
        if (!rc) rc = mo_compiled_check(&compiled, NULL);
        mo_plan_destroy(plan);
        mo_compiled_close(&compiled);
    }
    mo_store_close(store);
    return rc;
}

static int sweep_body(void *ctx) {
    return open_plan(ctx);
}

static void failing_allocations(void **state) {
    (void)state;
    struct fault_sys fault;
    struct mo_env with = env;
    struct mo_published done;
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    fault_sys_init(&fault);
    with.sys = &fault.table;
    assert_int_equal(open_plan(&with), MOIRE_OK);
    assert_true(fault_sys_sweep(&fault, sweep_body, &with, MOIRE_OK) > 8);
}

/* Without mapping the file is read. */
static int no_map(void *self, int fd, size_t bytes, const void **out) {
    (void)self, (void)fd, (void)bytes, (void)out;
    return -ENODEV;
}

static void unmappable_file_is_read(void **state) {
    (void)state;
    struct mo_published done;
    struct mo_sys sys = *mo_sys_posix();
    struct mo_env with = env;
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    sys.map = no_map;
    with.sys = &sys;
    assert_int_equal(open_plan(&with), MOIRE_OK);
}

/* What sys->drop was called with last. */
static const char *dropped;
static size_t dropped_bytes;

static void note_drop(void *self, const void *at, size_t bytes) {
    (void)self;
    dropped = at;
    dropped_bytes = bytes;
}

/* Only what no first version reads leaves, and only from a mapping. */
static void other_versions_leave_memory(void **state) {
    (void)state;
    struct mo_published done;
    struct mo_sys sys = *mo_sys_posix();
    struct mo_env with = env;
    struct mo_store *store;
    struct mo_compiled compiled = {0};
    struct mo_plan *plan;
    struct mo_compiled_request request = request_of();
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    sys.drop = note_drop;
    with.sys = &sys;
    assert_int_equal(mo_store_open(&with, folder, &store, NULL), MOIRE_OK);
    struct mo_plan_options options = {.isa = request.isa, .store = store};
    assert_int_equal(mo_compiled_open(store, &with, &request, true, &compiled, NULL), MOIRE_OK);
    assert_true(compiled.file.mapped);
    assert_int_equal(mo_plan_build(compiled.graph, &options, &plan, NULL), MOIRE_OK);
    const struct mo_packed_places *packed = plan->graph->packed;
    assert_true(packed->n > 1);
    const char *last = packed->place[packed->n - 1].data,
               *end = (const char *)compiled.file.bytes + compiled.file.n;
    struct mo_step *step = &plan->steps[0];
    for (int k = 0; k < plan->n_steps; k++)
        if (plan->steps[k].weights == packed->place[0].data) step = &plan->steps[k];
    assert_ptr_equal(step->weights, packed->place[0].data);
    struct mo_version versions[3] = {
        {.weights = step->weights}, {.weights = step->weights}, {.weights = last}};
    step->version = versions;
    step->n_versions = 2; /* of one packing */
    dropped = NULL;
    mo_compiled_trim(&compiled, plan);
    assert_null(dropped);
    step->n_versions = 3;
    mo_compiled_trim(&compiled, plan);
    assert_ptr_equal(dropped, last);
    assert_int_equal(dropped_bytes, end - last);
    dropped = NULL;
    compiled.file.mapped = false; /* read: there is nothing to bring it back from */
    mo_compiled_trim(&compiled, plan);
    assert_null(dropped);
    compiled.file.mapped = true;
    mo_plan_destroy(plan);
    mo_compiled_close(&compiled);
    mo_store_close(store);
}

static void killed_anywhere_leaves_a_valid_store(void **state) {
    (void)state;
    float want[CLASSES], got[CLASSES];
    int status;
    serve(want);
    for (int k = 1;; k++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct fault_sys fault;
            struct mo_env with = env;
            struct mo_published done;
            fault_sys_init(&fault);
            fault.die_at = k;
            with.sys = &fault.table;
            _exit(publish(&with, &done) != MOIRE_OK);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        serve(got);
        assert_int_equal(warnings, 0);
        must_equal(want, got);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            assert_true(k > 20);
            break;
        }
    }
    assert_true(serve(got));
}

/* KiB of the mapped model that at least one other process has mapped as well. */
static long shared_kib(void) {
    char line[1024];
    bool inside = false;
    long kib = 0;
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strstr(line, " r")) inside = strstr(line, MO_MODEL_SUFFIX) != NULL;
        if (inside && !strncmp(line, "Shared_Clean:", 13)) kib += strtol(line + 13, NULL, 10);
    }
    if (f) fclose(f);
    return kib;
}

/* Holds the model open, says so, waits for the word to go. */
static void hold(int ready, int go) {
    struct mo_store *store;
    struct mo_compiled compiled;
    struct mo_compiled_request request = request_of();
    char byte = 0;
    bool ok = !mo_store_open(&env, folder, &store, NULL) &&
              !mo_compiled_open(store, &env, &request, true, &compiled, NULL) && compiled.file.mapped &&
              !mo_compiled_check(&compiled, NULL);
    _exit(!ok || write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 0);
}

static void processes_share_a_model(void **state) {
    (void)state;
    struct mo_published done;
    struct mo_store *store;
    struct mo_compiled compiled;
    struct mo_compiled_request request = request_of();
    int ready[2], go[2], status;
    char byte;
    assert_int_equal(publish(&env, &done), MOIRE_OK);
    assert_int_equal(pipe(ready) | pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        hold(ready[1], go[0]);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(mo_store_open(&env, folder, &store, NULL), MOIRE_OK);
    assert_int_equal(mo_compiled_open(store, &env, &request, true, &compiled, NULL), MOIRE_OK);
    assert_true(compiled.file.mapped);
    assert_int_equal(mo_compiled_check(&compiled, NULL), MOIRE_OK);
    assert_true(shared_kib() * 1024 > (long)done.bytes * 9 / 10);
    mo_graph_destroy(compiled.graph);
    mo_compiled_close(&compiled);
    mo_store_close(store);
    close(go[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(ready[0]), close(ready[1]), close(go[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(stored_model_answers_as_onnx), TEST(stored_model_is_profiled),
        TEST(weights_are_kept_once),        TEST(changed_file_is_another_model),
        TEST(bad_files_are_skipped),        TEST(mutated_images_do_no_harm),
        TEST(every_byte_is_covered),        cmocka_unit_test(parts_are_checked_by_two),
        TEST(failing_allocations),          TEST(unmappable_file_is_read),
        TEST(other_versions_leave_memory),  TEST(killed_anywhere_leaves_a_valid_store),
        TEST(processes_share_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
