/* SPDX-License-Identifier: Apache-2.0
 * test_output.c - the writer of a user's files on everything that can be at a path: what is no regular file
 * stays what it is, and what cannot be written is said before the work and leaves nothing behind. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/output.h"
#include "tests/unit/base/fault_sys.h"
#include "tools/moire/command_line/flags.h"

static const char text[] = "what a reader must find, whole";
static struct mo_env env;
static char folder[64];

static int enter(void **state) {
    (void)state;
    env = mo_env_default();
    snprintf(folder, sizeof folder, "/tmp/moire-output-XXXXXX");
    return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

/* Fails when anything is left but what the test took away. */
static int leave(void **state) {
    (void)state;
    return chdir("/") || rmdir(folder);
}

static int put(const char *path) {
    moire_error err;
    int code = mo_output_write(&env, path, text, sizeof text - 1, &err);
    if (code) assert_non_null(strstr(err.message, path));
    return code;
}

static void assert_holds(const char *path, const char *expected) {
    char got[256] = {0};
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, got, sizeof got - 1);
    close(fd);
    assert_int_equal(n, strlen(expected));
    assert_string_equal(got, expected);
}

static void make(const char *path, const char *contents, mode_t mode) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, contents, strlen(contents)), strlen(contents));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static mode_t mode_of(const char *path) {
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode;
}

static void regular_files_keep_their_mode(void **state) {
    (void)state;
    mode_t old = umask(027);
    assert_int_equal(put("new"), MOIRE_OK);
    umask(old);
    assert_int_equal(mode_of("new"), S_IFREG | 0640);
    make("kept", "old contents, longer than what comes in their place", 0604);
    int before = open("kept", O_RDONLY);
    assert_int_equal(put("kept"), MOIRE_OK);
    assert_int_equal(mode_of("kept"), S_IFREG | 0604);
    assert_holds("kept", text);
    char first[4] = {0};
    assert_int_equal(pread(before, first, 3, 0), 3); /* who reads the old file goes on reading it */
    assert_string_equal(first, "old");
    close(before);
    unlink("new");
    unlink("kept");
}

static void symbolic_links_stay(void **state) {
    (void)state;
    assert_int_equal(mkdir("there", 0700), 0);
    make("there/real", "old", 0640);
    assert_int_equal(symlink("real", "there/link"), 0); /* relative to the folder of the link */
    assert_int_equal(symlink("there/link", "second"), 0);
    assert_int_equal(symlink("there/none", "dangling"), 0);
    assert_int_equal(symlink("nowhere/none", "lost"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_int_equal(put("second"), MOIRE_OK);
    assert_true(S_ISLNK(mode_of("second")) && S_ISLNK(mode_of("there/link")));
    assert_int_equal(mode_of("there/real"), S_IFREG | 0640);
    assert_holds("there/real", text);
    assert_int_equal(mo_output_check(&env, "dangling", NULL), MOIRE_OK);
    assert_int_equal(access("there/none", F_OK), -1); /* looked at, not made */
    assert_int_equal(put("dangling"), MOIRE_OK);
    assert_true(S_ISLNK(mode_of("dangling")));
    assert_holds("there/none", text);
    const char *const bad[] = {"lost", "loop"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mo_output_check(&env, bad[i], NULL), MOIRE_EIO);
        assert_int_equal(put(bad[i]), MOIRE_EIO);
        assert_true(S_ISLNK(mode_of(bad[i])));
    }
    const char *const all[] = {"there/real", "there/link", "there/none", "second",
                               "dangling",   "lost",       "loop"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(unlink(all[i]), 0);
    assert_int_equal(rmdir("there"), 0);
}

static void a_fifo_is_written_through(void **state) {
    (void)state;
    char got[sizeof text] = {0};
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(mo_output_check(&env, "fifo", NULL), MOIRE_OK); /* nobody reads: must not wait */
    assert_false(mo_output_replaces(&env, "fifo"));
    int reader = open("fifo", O_RDONLY | O_NONBLOCK);
    assert_int_equal(put("fifo"), MOIRE_OK);
    assert_int_equal(read(reader, got, sizeof got), sizeof text - 1);
    assert_string_equal(got, text);
    /* a reader that goes away is an error, no signal that ends the process */
    struct mo_output out;
    moire_error err;
    assert_int_equal(mo_output_open(&env, "fifo", &out, &err), MOIRE_OK);
    close(reader);
    mo_output_put(&out, text, sizeof text);
    assert_int_equal(mo_output_close(&out, &err), MOIRE_EIO);
    assert_non_null(strstr(err.message, "fifo"));
    assert_true(S_ISFIFO(mode_of("fifo")));
    unlink("fifo");
}

static void devices_stay_devices(void **state) {
    (void)state;
    if (geteuid()) skip();
    if (mknod("null", S_IFCHR | 0666, makedev(1, 3)) || mknod("full", S_IFCHR | 0666, makedev(1, 7))) skip();
    int fd = open("null", O_WRONLY);
    if (fd < 0) { /* a file system without devices */
        unlink("null");
        unlink("full");
        skip();
    }
    close(fd);
    assert_int_equal(symlink("full", "link"), 0);
    assert_int_equal(put("null"), MOIRE_OK);
    assert_int_equal(put("full"), MOIRE_EIO);
    assert_int_equal(put("link"), MOIRE_EIO);
    assert_true(S_ISCHR(mode_of("null")) && S_ISCHR(mode_of("full")) && S_ISLNK(mode_of("link")));
    unlink("null");
    unlink("full");
    unlink("link");
}

/* Where a shell has sent our output with ">>", and where it stands, is the shell's. */
static void open_descriptors_are_used_as_they_are(void **state) {
    (void)state;
    static const char *const ways[] = {"/proc/self/fd/%d", "/dev/fd/%d"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        make("log", "before ", 0600);
        int fd = open("log", O_WRONLY | O_APPEND);
        snprintf(path, sizeof path, ways[i], fd);
        assert_int_equal(put(path), MOIRE_OK);
        assert_int_equal(write(fd, " after", 6), 6); /* still open */
        close(fd);
        char whole[128];
        snprintf(whole, sizeof whole, "before %s after", text);
        assert_holds("log", whole);
        assert_int_equal(put(path), MOIRE_EIO); /* closed */
        unlink("log");
    }
}

/* Links of /proc name what is open, which may be gone. */
static void a_deleted_file_is_not_made_again(void **state) {
    (void)state;
    make("gone", "", 0600);
    int fd = open("gone", O_RDWR);
    unlink("gone");
    char path[64], got[64] = {0};
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    assert_int_equal(put(path), MOIRE_OK);
    assert_int_equal(pread(fd, got, sizeof got, 0), sizeof text - 1);
    close(fd);
}

static void folders_and_missing_folders(void **state) {
    (void)state;
    static const char *const bad[] = {".", "/", "none/x", "none/", "file/x", ""};
    make("file", "", 0600);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(mo_output_check(&env, bad[i], NULL), MOIRE_EIO);
        assert_int_equal(put(bad[i]), MOIRE_EIO);
    }
    unlink("file");
}

/* As somebody who is not root, where we are. */
static void as_nobody(void (*body)(void)) {
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        if (!geteuid() && setresuid(65534, 65534, 65534)) _exit(2);
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void refuse_all(void) {
    static const char *const paths[] = {"closed/new", "closed/old", "open/locked"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (mo_output_check(&env, paths[i], NULL) != MOIRE_EIO ||
            mo_output_write(&env, paths[i], text, 1, NULL) != MOIRE_EIO)
            _exit(10 + (int)i);
}

static void what_we_may_not_write_to_stays(void **state) {
    (void)state;
    assert_int_equal(chmod(".", 0755), 0);
    assert_int_equal(mkdir("closed", 0700), 0);
    assert_int_equal(mkdir("open", 0700), 0);
    assert_int_equal(chmod("open", 0777), 0);
    make("closed/old", "old", 0666);
    make("open/locked", "old", 0444);
    assert_int_equal(chmod("closed", 0555), 0);
    as_nobody(refuse_all);
    assert_holds("closed/old", "old");
    assert_holds("open/locked", "old");
    assert_int_equal(chmod("closed", 0755), 0);
    unlink("closed/old");
    unlink("open/locked");
    rmdir("closed");
    rmdir("open");
}

/* Whatever fails, the old file is whole and no other one is left (leave() looks). */
static void failures_leave_the_old_file(void **state) {
    (void)state;
    struct fault_sys f;
    make("old", "old", 0600);
    for (long room = 0; room < (long)sizeof text - 1; room += 7) {
        fault_sys_init(&f);
        f.disk_bytes = room;
        env.sys = &f.table;
        assert_int_equal(put("old"), MOIRE_EIO);
        assert_int_equal(f.opened, f.closed);
        assert_holds("old", "old");
    }
    fault_sys_init(&f);
    f.read_only = 1;
    assert_int_equal(mo_output_check(&env, "old", NULL), MOIRE_EIO);
    assert_int_equal(put("old"), MOIRE_EIO);
    env.sys = mo_sys_posix();
    struct mo_output out;
    assert_int_equal(mo_output_open(&env, "old", &out, NULL), MOIRE_OK);
    mo_output_put(&out, text, 5);
    mo_output_drop(&out);
    assert_holds("old", "old");
    unlink("old");
}

/* One path, two writers whose parts are interleaved. */
static void two_writers_do_not_mix(void **state) {
    (void)state;
    struct mo_output a, b;
    assert_int_equal(mo_output_open(&env, "both", &a, NULL), MOIRE_OK);
    assert_int_equal(mo_output_open(&env, "both", &b, NULL), MOIRE_OK);
    mo_output_put(&a, "aaaa", 4);
    mo_output_put(&b, "bb", 2);
    mo_output_put(&a, "aaaa", 4);
    assert_int_equal(mo_output_close(&a, NULL), MOIRE_OK);
    assert_holds("both", "aaaaaaaa");
    mo_output_put(&b, "bb", 2);
    assert_int_equal(mo_output_close(&b, NULL), MOIRE_OK);
    assert_holds("both", "bbbb");
    unlink("both");
}

static int look(const struct mo_verb *verb, int argc, char **argv) {
    static struct mo_options o;
    assert_int_equal(mo_options_open(&env, verb, argc, argv, &o, NULL), MOIRE_OK);
    int code = mo_options_check_outputs(&env, &o, NULL);
    mo_options_close(&env, &o);
    return code;
}

static void verbs_look_before_they_work(void **state) {
    (void)state;
    char *plan[] = {"plan", "mix", "--machine", "m", "--svg=none/x.svg"},
         *run[] = {"run", "m.onnx", "--output-dir", "none/deep"},
         *fine[] = {"plan", "mix", "--machine", "m", "--svg", "x.svg", "--output", "y.json"},
         *made[] = {"run", "m.onnx", "--output-dir", "made"};
    assert_int_equal(look(&mo_verb_plan, 5, plan), MOIRE_EIO);
    assert_int_equal(look(&mo_verb_run, 4, run), MOIRE_EIO);
    assert_int_equal(look(&mo_verb_plan, 8, fine), MOIRE_OK);
    assert_int_equal(look(&mo_verb_run, 4, made), MOIRE_OK);
}

int main(void) {
#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave)
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(regular_files_keep_their_mode),
        IN_A_FOLDER(symbolic_links_stay),
        IN_A_FOLDER(a_fifo_is_written_through),
        IN_A_FOLDER(devices_stay_devices),
        IN_A_FOLDER(open_descriptors_are_used_as_they_are),
        IN_A_FOLDER(a_deleted_file_is_not_made_again),
        IN_A_FOLDER(folders_and_missing_folders),
        IN_A_FOLDER(what_we_may_not_write_to_stays),
        IN_A_FOLDER(failures_leave_the_old_file),
        IN_A_FOLDER(two_writers_do_not_mix),
        IN_A_FOLDER(verbs_look_before_they_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
