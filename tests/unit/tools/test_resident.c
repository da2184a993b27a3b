/* SPDX-License-Identifier: Apache-2.0
 * test_resident.c - mappings of a process by kind. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "bench/load/footprint.h"
#include "bench/load/resident.h"

static void read_text(const char *text, struct mo_resident *out) {
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(f);
    mo_resident_read(f, out);
    fclose(f);
}

static void mappings_have_their_kind(void **state) {
    (void)state;
    static const char text[] =
        "7f10-7f20 r--s 00000000 fe:00 1234                       /home/a user/store/v1/ab/ab.model\n"
        "Size:               9999 kB\nRss:                2048 kB\n"
        "Shared_Clean:       1024 kB\nPrivate_Clean:      1024 kB\n"
        "7f30-7f40 r-xp 00000000 00:01 7                          /memfd:moire (deleted)\n"
        "Rss:                 512 kB\nShared_Clean:        512 kB\n"
        "7f90-7fa0 r-xp 00000000 fe:00 8                          /srv/k/v1/x86_64-1/87/"
        "87b8c3725d9f638e3a5c1b87b3565931d1f9d01fe20865b20f3d10564c3f6ba3.so\n"
        "Rss:                 256 kB\nShared_Clean:        256 kB\n"
        "555000-556000 rw-p 00000000 00:00 0                      [heap]\n"
        "Rss:                1024 kB\nPrivate_Dirty:      1024 kB\n"
        "7f50-7f60 rw-p 00000000 00:00 0 \n"
        "Rss:                3072 kB\nPrivate_Clean:      3072 kB\n"
        "7f70-7f80 r-xp 00000000 fe:00 9                          /usr/lib/libc.so.6\n"
        "Rss:                 256 kB\nShared_Clean:        128 kB\nPrivate_Dirty:       128 kB\n";
    static const double want[MO_RESIDENT_KINDS] = {2, 0.75, 0.25, 1, 3};
    struct mo_resident r;
    read_text(text, &r);
    for (int k = 0; k < MO_RESIDENT_KINDS; k++)
        if (fabs(r.mib[k] - want[k]) > 1e-9)
            fail_msg("%s: %g", mo_resident_name((enum mo_resident_kind)k), r.mib[k]);
    assert_true(fabs(r.file_mib - 2.375) < 1e-9);
}

/* Each mapping once, however many addresses lie in it; its end is outside. */
static void mappings_are_found_by_address(void **state) {
    (void)state;
    static const char text[] = "1000-3000 r--s 00000000 fe:00 1234   /store/ab.model\n"
                               "Size:               9999 kB\nRss:                2048 kB\n"
                               "3000-4000 r-xp 00000000 00:01 7      /memfd:moire (deleted)\n"
                               "Rss:                 512 kB\n"
                               "9000-a000 rw-p 00000000 00:00 0 \nRss:                1024 kB\n";
    static const struct {
        uintptr_t at[3];
        int n;
        double mib;
    } rows[] = {{{0x1000}, 1, 2},
                {{0x2fff, 0x1008}, 2, 2},
                {{0x3000, 0x1000, 0x3800}, 3, 2.5},
                {{0x4000, 0xa000, 0xfff}, 3, 0},
                {{0}, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const void *at[3];
        for (int k = 0; k < 3; k++)
            at[k] = (const void *)rows[i].at[k];
        FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
        assert_non_null(f);
        if (fabs(mo_resident_of(f, at, rows[i].n) - rows[i].mib) > 1e-9) fail_msg("row %zu", i);
        fclose(f);
    }
}

/* The parts of a living process make up what it has resident, and its heap is found. */
static void parts_of_this_process_add_up(void **state) {
    (void)state;
    FILE *f = fopen("/proc/self/smaps", "re");
    struct mo_resident r;
    double sum = 0;
    if (!f) skip();
    mo_resident_read(f, &r);
    fclose(f);
    for (int k = 0; k < MO_RESIDENT_KINDS; k++)
        sum += r.mib[k];
    assert_true(r.mib[MO_RESIDENT_FILES] > 0 && r.mib[MO_RESIDENT_PAGES] > 0);
    assert_true(sum >= r.file_mib && sum < 1e6);
    read_text("no smaps at all\n", &r);
    for (int k = 0; k < MO_RESIDENT_KINDS; k++)
        assert_true(r.mib[k] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mappings_have_their_kind),
        cmocka_unit_test(mappings_are_found_by_address),
        cmocka_unit_test(parts_of_this_process_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
