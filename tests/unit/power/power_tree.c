/* SPDX-License-Identifier: Apache-2.0
 * power_tree.c - see power_tree.h. */
#define _GNU_SOURCE
#include "tests/unit/power/power_tree.h"

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
#include <unistd.h>

/* --- the table ------------------------------------------------------------------------------------------ */
static int pt_open(void *self, const char *path, int flags, int mode) {
    struct power_tree *t = self;
    if (t->forbidden && strstr(path, t->forbidden)) return -EACCES;
    if (t->unwritable && (flags & O_ACCMODE) != O_RDONLY && strstr(path, t->unwritable)) return -EACCES;
    return t->fault.table.open(&t->fault, path, flags, mode);
}

static ssize_t pt_read(void *self, int fd, void *buffer, size_t n) {
    struct power_tree *t = self;
    if (fd < POWER_FD) return t->fault.table.read(&t->fault, fd, buffer, n);
    const int i = fd - POWER_FD;
    if (i == t->lost) return 0;
    assert_int_equal(n, sizeof t->value[i]);
    memcpy(buffer, &t->value[i], n);
    return (ssize_t)n;
}

static int pt_close(void *self, int fd) {
    struct power_tree *t = self;
    if (fd < POWER_FD) return t->fault.table.close(&t->fault, fd);
    t->closed++;
    return 0;
}

static ssize_t pt_write(void *self, int fd, const void *buffer, size_t n) {
    struct power_tree *t = self;
    return t->fault.table.write(&t->fault, fd, buffer, n);
}

static int pt_may_write(void *self, const char *path, bool folder) {
    struct power_tree *t = self;
    if (t->forbidden && strstr(path, t->forbidden)) return -EACCES;
    return t->fault.table.may_write(&t->fault, path, folder);
}

static void *pt_alloc(void *self, size_t align, size_t bytes) {
    struct power_tree *t = self;
    return t->fault.table.alloc(&t->fault, align, bytes);
}

static void pt_free(void *self, void *p) {
    struct power_tree *t = self;
    t->fault.table.free(&t->fault, p);
}

static int64_t pt_now(void *self) {
    return ((struct power_tree *)self)->now;
}

static int pt_count_on_cpu(void *self, uint32_t type, uint64_t event, int cpu) {
    struct power_tree *t = self;
    if (t->refuses) return t->refuses;
    assert_true(t->opened < POWER_COUNTERS);
    t->type = type;
    t->event[t->opened] = event;
    t->cpu[t->opened] = cpu;
    return POWER_FD + t->opened++;
}

static void keep_line(void *user, int level, const char *line) {
    struct power_tree *t = user;
    const size_t n = strlen(t->log);
    snprintf(t->log + n, sizeof t->log - n, "%s\n", line);
    t->warnings += level == MOIRE_LOG_WARN;
}

void power_tree_open(struct power_tree *t) {
    *t = (struct power_tree){.root = "/tmp/moire-power-XXXXXX", .now = 1000000000, .lost = -1};
    assert_non_null(mkdtemp(t->root));
    fault_sys_init(&t->fault);
    t->table = t->fault.table; /* what is not replaced ignores self, or is not called */
    t->table.self = t;
    t->table.open = pt_open;
    t->table.read = pt_read;
    t->table.close = pt_close;
    t->table.write = pt_write;
    t->table.may_write = pt_may_write;
    t->table.alloc = pt_alloc;
    t->table.free = pt_free;
    t->table.now = pt_now;
    t->table.count_on_cpu = pt_count_on_cpu;
    t->env = mo_env_default();
    t->env.sys = &t->table;
    t->env.log = keep_line;
    t->env.log_user = t;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}

void power_tree_close(struct power_tree *t) {
    nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(fault_sys_live(&t->fault), 0);
    assert_int_equal(t->fault.opened, t->fault.closed);
    assert_int_equal(t->opened, t->closed);
}

/* --- files ---------------------------------------------------------------------------------------------- */
void power_put(const struct power_tree *t, const char *path, const char *text) {
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", t->root, path);
    for (char *slash = strchr(whole + strlen(t->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0755);
        *slash = '/';
    }
    if (!text) {
        unlink(whole);
        return;
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

const char *power_text(const struct power_tree *t, const char *path) {
    static char text[64];
    char whole[400];
    snprintf(whole, sizeof whole, "%s%s", t->root, path);
    FILE *f = fopen(whole, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

void power_zone(const struct power_tree *t, const char *folder, const char *name, const char *energy,
                const char *range) {
    const struct {
        const char *file, *text;
    } rows[] = {{"name", name}, {"energy_uj", energy}, {"max_energy_range_uj", range}};
    for (int i = 0; i < 3; i++) {
        char path[200], line[64];
        snprintf(path, sizeof path, "/sys/class/powercap/%s/%s", folder, rows[i].file);
        snprintf(line, sizeof line, "%s\n", rows[i].text ? rows[i].text : "");
        power_put(t, path, rows[i].text ? line : NULL);
    }
}

void power_clock(const struct power_tree *t, int cpu, const char *ceiling) {
    const struct {
        const char *file, *text;
    } rows[] = {{"cpuinfo_min_freq", "800000\n"},
                {"cpuinfo_max_freq", "3500000\n"},
                {"scaling_max_freq", ceiling},
                {"scaling_governor", "schedutil\n"},
                {"scaling_driver", "acpi-cpufreq\n"}};
    for (int i = 0; i < 5; i++) {
        char path[200];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, rows[i].file);
        power_put(t, path, rows[i].text);
    }
}
