/* SPDX-License-Identifier: Apache-2.0
 * test_cuda_cache.c - compiled programs and choices of kernels kept in a folder: the next process compiles
 * nothing and answers the same; whatever is wrong with the folder costs that and no more.
 *
 * A *life* is what a process does: it opens a GPU, loads a program, answers, and ends.  Calls of NVRTC are
 * counted by the fake. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/gpu/cuda/exec.h"
#include "tests/cuda/exec_rig.h"
#include "tests/cuda/gpu_cases.h"
#include "tests/unit/base/fault_sys.h"
#include "tools/moire/verify/ways.h"

enum { PORTS = GPU_CASE_PORTS };

struct bed {
    struct fault_sys sys;
    struct mo_env env;
    char root[64], cache[100], count[100], objects[100];
    struct ob *model;
    struct mo_graph *graph;
    struct mo_gpu_program *program;
    moire_tensor in[PORTS], want[PORTS];
    int warnings;
    char warning[400];
    int records, convolved; /* of the driver, in the last life; of them, convolutions by cuDNN */
};

static void note(void *user, int level, const char *line) {
    struct bed *b = user;
    if (level > MOIRE_LOG_WARN || strstr(line, "generated kernel")) return; /* not of the folder */
    b->warnings++;
    snprintf(b->warning, sizeof b->warning, "%s", line);
}

static void begin(struct bed *b, const char *model) {
    memset(b, 0, sizeof *b);
    fault_sys_init(&b->sys);
    b->env = mo_env_default();
    b->env.sys = &b->sys.table;
    b->env.log = note;
    b->env.log_user = b;
    snprintf(b->root, sizeof b->root, "/tmp/moire-kept-XXXXXX");
    assert_non_null(mkdtemp(b->root));
    snprintf(b->cache, sizeof b->cache, "%s/some/cache", b->root);
    snprintf(b->count, sizeof b->count, "%s/count", b->root);
    snprintf(b->objects, sizeof b->objects, "%s/objects", b->root);
    assert_int_equal(mkdir(b->objects, 0755), 0);
    setenv("MO_FAKE_NVRTC_COUNT", b->count, 1);
    setenv("MO_FAKE_NVRTC_CACHE", b->objects, 1);
    b->program = gpu_case_lower(model, &b->model, &b->graph, b->in, b->want);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void end(struct bed *b) {
    assert_int_equal(fault_sys_live(&b->sys), 0);
    assert_int_equal(b->sys.opened, b->sys.closed);
    mo_gpu_program_destroy(b->program);
    mo_way_free(&b->model->env, b->want, b->graph->n_outputs);
    mo_graph_destroy(b->graph);
    ob_destroy(b->model);
    unsetenv("MO_FAKE_NVRTC_COUNT");
    unsetenv("MO_FAKE_NVRTC_CACHE");
    assert_int_equal(nftw(b->root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Calls of NVRTC since the last time. */
static int compiled(const struct bed *b) {
    struct stat st;
    const int n = stat(b->count, &st) ? 0 : (int)st.st_size;
    unlink(b->count);
    return n;
}

static void answer(struct bed *b, struct exec_rig *r, struct mo_gpu_loaded *loaded) {
    moire_tensor got[PORTS] = {{0}};
    exec_rig_run(r, loaded, 0, b->in, got);
    gpu_case_compare(&loaded->program, b->want, got, 1e-4);
    for (int i = 0; i < PORTS; i++)
        free(got[i].data);
}

/* One life; how often NVRTC was called. */
static int live_as(struct bed *b, const struct exec_rig_options *as) {
    struct exec_rig_options o = *as;
    const struct mo_fake_record *records;
    struct mo_gpu_loaded *loaded;
    struct exec_rig r;
    moire_error err = {0};
    o.env = &b->env;
    if (!o.cache) o.cache = b->cache;
    b->warnings = 0;
    compiled(b);
    exec_rig_open(&r, &o);
    if (mo_cuda_exec_load(r.exec, b->program, 1, &loaded, &err)) fail_msg("%s", err.message);
    answer(b, &r, loaded);
    b->records = r.fake->records(&records);
    b->convolved = 0;
    for (int i = 0; i < b->records; i++)
        b->convolved += !strcmp(records[i].what, "cudnn_fused") || !strcmp(records[i].what, "cudnn_forward");
    mo_cuda_exec_unload(loaded);
    exec_rig_close(&r);
    return compiled(b);
}

static int live(struct bed *b) {
    return live_as(b, &(struct exec_rig_options){0});
}

static void two_processes_at_once(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "mobilenet_like");
    pid_t child[3];
    for (int i = 0; i < 3; i++) {
        child[i] = fork();
        assert_true(child[i] >= 0);
        if (!child[i]) {
            live(&b);
            _exit(b.warnings != 0);
        }
    }
    for (int i = 0, status; i < 3; i++) {
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(live(&b), 0);
    end(&b);
}

static void the_second_process_compiles_nothing(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "resnet_like");
    assert_true(live(&b) > 0);
    const int first = b.records;
    assert_int_equal(live(&b), 0);
    assert_true(b.records < first); /* nor does it try kernels out */
    assert_int_equal(b.warnings, 0);
    const int second = b.records;
    assert_int_equal(live_as(&b, &(struct exec_rig_options){.gpu = "another"}), 0);
    assert_true(b.records > second); /* choices are of one kind of GPU */
    end(&b);
}

/* A let of a size that nothing is kept for takes what is kept for the nearest one, and that is not kept as
 * its own; the whole GPU, and sizes far from all, choose for themselves. */
static void a_new_size_takes_the_choices_of_the_nearest(void **state) {
    static const struct {
        int sms;
        bool times;
    } rows[] = {{64, true}, {64, false}, {48, false}, {72, false}, {96, false},
                {40, true}, {104, true}, {132, true}, {120, false}};
    struct bed b;
    int once = 0; /* what is taken over runs to see that it does, before it is captured, and to answer */
    (void)state;
    begin(&b, "resnet_like");
    for (int i = 0; i < b.program->n_ops; i++)
        once += 3 * (b.program->ops[i].kind == MO_GPU_CONV);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        live_as(&b, &(struct exec_rig_options){.sms = rows[i].sms});
        assert_int_equal(b.convolved > once, rows[i].times);
    }
    end(&b);
}

/* What the machine code depends on is in its name. */
static void other_versions_are_others(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "branches");
    const int all = live(&b);
    assert_true(all > 0);
    assert_int_equal(live_as(&b, &(struct exec_rig_options){.minor = 1}), all);
    setenv("MO_FAKE_NVRTC_MINOR", "1", 1);
    assert_int_equal(live(&b), all);
    assert_int_equal(live(&b), 0);
    unsetenv("MO_FAKE_NVRTC_MINOR");
    assert_int_equal(live(&b), 0);
    assert_int_equal(live_as(&b, &(struct exec_rig_options){.minor = 1}), 0);
    assert_true(live_as(&b, &(struct exec_rig_options){.no_libraries = true}) > 0); /* more kernels */
    assert_int_equal(live_as(&b, &(struct exec_rig_options){.no_libraries = true}), 0);
    end(&b);
}

/* With libraries at hand a product's own kernel is not compiled; without them all are. */
static void stand_ins_are_compiled_when_they_are_needed(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "branches");
    for (int without = 0; without < 2; without++) {
        struct exec_rig r;
        struct mo_gpu_loaded *l;
        int ready = 0;
        exec_rig_open(&r, &(struct exec_rig_options){.no_libraries = without});
        assert_int_equal(mo_cuda_exec_load(r.exec, b.program, 1, &l, NULL), 0);
        for (int i = 0; i < b.program->n_kernels; i++)
            ready += l->functions[i] != NULL;
        if (without)
            assert_int_equal(ready, b.program->n_kernels);
        else
            assert_in_range(ready, 1, b.program->n_kernels - 1);
        mo_cuda_exec_unload(l);
        exec_rig_close(&r);
    }
    end(&b);
}

/* --- damage --------------------------------------------------------------------------------------------- */
static int how, files;

/* Overwrites the last byte of a kept file, cuts it short, or empties it. */
static int damage_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)at;
    if (type != FTW_F || !strstr(path, ".c")) return 0;
    if (!strcmp(path + strlen(path) - 4, "lock")) return 0;
    files++;
    chmod(path, 0644);
    if (how) return truncate(path, how == 1 ? st->st_size / 2 : 0);
    const int fd = open(path, O_RDWR);
    char last = 0;
    if (fd < 0 || pread(fd, &last, 1, st->st_size - 1) != 1) return -1;
    last ^= 1;
    if (pwrite(fd, &last, 1, st->st_size - 1) != 1) return -1;
    return close(fd);
}

static void damaged_files_are_made_again(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "mobilenet_like");
    const int all = live(&b);
    for (how = 0; how < 3; how++) {
        files = 0;
        assert_int_equal(nftw(b.cache, damage_one, 16, FTW_PHYS), 0);
        assert_int_equal(files, all + 1); /* and the choices */
        assert_int_equal(live(&b), all);
        assert_int_equal(b.warnings, files); /* each is said once, */
        assert_non_null(strstr(b.warning, b.cache));
        assert_int_equal(live(&b), 0); /* and is whole again */
        assert_int_equal(b.warnings, 0);
    }
    end(&b);
}

static void an_image_that_the_driver_refuses_is_compiled_again(void **state) {
    struct bed b;
    struct exec_rig r;
    struct mo_gpu_loaded *loaded;
    (void)state;
    begin(&b, "branches");
    live(&b);
    exec_rig_open(&r, &(struct exec_rig_options){.cache = b.cache});
    r.fake->fail_call("cuLibraryLoadData", 0, 1, 200 /* CUDA_ERROR_INVALID_IMAGE */);
    assert_int_equal(mo_cuda_exec_load(r.exec, b.program, 1, &loaded, NULL), 0);
    answer(&b, &r, loaded);
    mo_cuda_exec_unload(loaded);
    exec_rig_close(&r);
    assert_int_equal(compiled(&b), 1);
    end(&b);
}

/* --- folders that cannot be used ------------------------------------------------------------------------ */
static void a_folder_that_cannot_be_written_serves(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "branches");
    b.sys.read_only = 1;
    const int all = live(&b); /* it is not there, and cannot be made */
    assert_true(all > 0);
    assert_int_equal(b.warnings, 1);
    b.sys.read_only = 0;
    assert_int_equal(live(&b), all);
    b.sys.read_only = 1;
    assert_int_equal(live(&b), 0); /* what is there is read */
    assert_int_equal(b.warnings, 0);
    assert_int_equal(live_as(&b, &(struct exec_rig_options){.minor = 1}), all);
    assert_int_equal(b.warnings, 1);
    end(&b);
}

static void a_folder_of_others_is_not_used(void **state) {
    struct bed b;
    char file[200];
    (void)state;
    begin(&b, "branches");
    const int all = live(&b);
    assert_int_equal(chmod(b.cache, 0777), 0);
    assert_int_equal(live(&b), all);
    assert_int_equal(b.warnings, 1);
    assert_non_null(strstr(b.warning, "written by others"));
    assert_int_equal(chmod(b.cache, 0755), 0);
    assert_int_equal(live(&b), 0);
    snprintf(file, sizeof file, "%s/link", b.root);
    assert_int_equal(symlink(b.cache, file), 0);
    assert_int_equal(live_as(&b, &(struct exec_rig_options){.cache = file}), all);
    assert_int_equal(b.warnings, 1);
    end(&b);
}

static void a_full_disk_costs_time_only(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "mobilenet_like");
    const long room[] = {0, 100, 5000, 20000};
    for (size_t i = 0; i < sizeof room / sizeof *room; i++) {
        b.sys.disk_bytes = room[i];
        live(&b);
        assert_int_equal(b.warnings, 1); /* once a process */
    }
    b.sys.disk_bytes = -1;
    live(&b);
    assert_int_equal(b.warnings, 0); /* nothing half-written was left to be read */
    assert_int_equal(live(&b), 0);
    end(&b);
}

/* Killed in every file operation in turn. */
static void killed_processes_leave_nothing_wrong(void **state) {
    struct bed b;
    int status = 1, k = 0;
    (void)state;
    begin(&b, "branches");
    while (status) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            b.sys.die_at = b.sys.files + k + 1;
            live(&b);
            _exit(b.warnings != 0);
        }
        k++;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    }
    assert_true(k > 10);
    assert_int_equal(live(&b), 0);
    end(&b);
}

static int load_once(void *ctx) {
    struct bed *b = ctx;
    struct mo_gpu_loaded *loaded = NULL;
    struct exec_rig r;
    moire_error err;
    int rc = exec_rig_try(&r, &(struct exec_rig_options){.env = &b->env, .cache = b->cache}, &err);
    if (!rc) rc = mo_cuda_exec_load(r.exec, b->program, 1, &loaded, &err);
    if (!rc) rc = mo_cuda_exec_prepare(loaded, -1, &r.target, 0, loaded->program.n_segments, &err);
    if (r.exec) mo_cuda_exec_unload(loaded);
    exec_rig_close(&r);
    return rc;
}

static void without_memory_nothing_leaks(void **state) {
    struct bed b;
    (void)state;
    begin(&b, "branches");
    assert_true(fault_sys_sweep(&b.sys, load_once, &b, 0) > 5);
    assert_int_equal(live(&b), 0);
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_processes_at_once),
                                       cmocka_unit_test(killed_processes_leave_nothing_wrong),
                                       cmocka_unit_test(the_second_process_compiles_nothing),
                                       cmocka_unit_test(a_new_size_takes_the_choices_of_the_nearest),
                                       cmocka_unit_test(other_versions_are_others),
                                       cmocka_unit_test(stand_ins_are_compiled_when_they_are_needed),
                                       cmocka_unit_test(damaged_files_are_made_again),
                                       cmocka_unit_test(an_image_that_the_driver_refuses_is_compiled_again),
                                       cmocka_unit_test(a_folder_that_cannot_be_written_serves),
                                       cmocka_unit_test(a_folder_of_others_is_not_used),
                                       cmocka_unit_test(a_full_disk_costs_time_only),
                                       cmocka_unit_test(without_memory_nothing_leaks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
