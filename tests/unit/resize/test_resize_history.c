/* SPDX-License-Identifier: Apache-2.0
 * test_resize_history.c - the history checker on blocks whose cores come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/history/spoilt.h"

/* Core 1 joins the block of query 11 on core 0; query 12 waits, runs on core 1 when that was asked out, and
 * grows onto core 0, which comes too late. */
static const char *const good[] = {
    /* 0 */ "# moire-history 2\n# cores 2\n# dropped 0",
    /* 1 */ "0 100 2 OPEN 0 0 3 4 2\n10 101 2 SUBMIT 0 0 101 0 0\n20 101 2 ACCEPT 11 0 101 900 0",
    /* 2 */ "30 102 2 SUBMIT 0 0 102 0 0\n40 102 2 ACCEPT 12 0 102 900 0",
    /* 3 */ "100 110 2 DISPATCH 11 0 0 3 1",
    /* 4 */ "110 111 0 BLOCK_START 11 0 0 3 0",
    /* 5 */ "120 112 2 RESIZE 11 0 1 0 500",
    /* 6 */ "130 113 1 GROW 11 0 1 2 0",
    /* 7 */ "140 120 2 RESIZE 11 0 0 1 700",
    /* 8 */ "150 125 1 LEAVE 11 0 1 1 0",
    /* 9 */ "160 126 2 DISPATCH 12 0 0 2 1",
    /* 10 */ "170 127 1 BLOCK_START 12 0 0 2 1",
    /* 11 */ "180 130 0 BLOCK_END 11 0 0 3 0",
    /* 12 */ "190 131 2 BLOCK_DONE 11 0 0 3 0\n200 131 2 RESOLVE 11 0 0 900 0",
    /* 13 */ "210 132 2 RESIZE 12 0 1 0 50",
    /* 14 */ "220 140 1 BLOCK_END 12 0 0 2 1",
    /* 15 */ "230 140 2 BLOCK_DONE 12 0 0 2 1",
    /* 16 */ "240 141 2 DISPATCH 12 0 2 3 1\n250 141 1 BLOCK_START 12 0 2 3 1",
    /* 17 */ "260 142 0 GROW 12 0 0 1 0",
    /* 18 */ "270 143 0 LEAVE 12 0 0 0 0",
    /* 19 */ "280 150 1 BLOCK_END 12 0 2 3 1\n290 150 2 RESOLVE 12 0 0 900 0",
    /* 20 */
    "300 160 2 CALLBACK_IN 11 0 0 0 0\n310 161 2 CALLBACK_OUT 11 0 0 0 0\n320 162 2 RELEASE 11 0 0 0 0",
    /* 21 */
    "330 163 2 CALLBACK_IN 12 0 0 0 0\n340 163 2 CALLBACK_OUT 12 0 0 0 0\n350 163 2 RELEASE 12 0 0 0 0",
};
enum { GOOD = sizeof good / sizeof *good };
static const struct spoilt bad[] = {
    {"FORM", "nobody is asked in or out", 5, 5, "120 112 2 RESIZE 11 0 0 0 500"},
    {"FORM", "more cores than there are", 6, 6, "130 113 1 GROW 11 0 1 3 0"},
    {"FORM", "fewer cores than none", 8, 8, "150 125 1 LEAVE 11 0 1 -1 0"},
    {"FORM", "fewer late cores than none", 12, 12, "190 131 2 BLOCK_DONE 11 0 0 3 -1"},
    {"H3", "resized before it is dispatched", 3, 2, "90 109 2 RESIZE 11 0 1 0 500"},
    {"H3", "resized after its end", 14, 13, "215 132 2 RESIZE 11 0 1 0 500"},
    {"H3", "another block's layers are done", 12, 12, "190 131 2 BLOCK_DONE 11 0 0 2 0"},
    {"H3", "a block is done that nobody ran", 10, 9,
     "161 126 2 RESIZE 12 0 1 0 9\n162 126 2 BLOCK_DONE 12 0 0 2 0"},
    {"H3", "OK though the block was not done", 12, 12, "200 131 2 RESOLVE 11 0 0 900 0"},
    {"H4", "a core joins that nobody asked", 5, 5, NULL},
    {"H4", "a core joins twice", 7, 6, "140 114 1 GROW 11 0 1 2 0"},
    {"H4", "a core that is in a block already", 6, 6, "130 113 1 GROW 11 0 0 2 0"},
    {"H4", "a core joins that is not there", 6, 6, "130 113 1 GROW 11 0 2 2 0"},
    {"H4", "a core in two blocks", 8, 8, NULL},
    {"H4", "a core leaves that is not in it", 8, 8, "150 125 1 LEAVE 12 0 1 1 0"},
    {"H4", "a core leaves that is not there", 8, 8, "150 125 1 LEAVE 11 0 2 1 0"},
    {"H4", "a core leaves unasked", 7, 7, NULL},
    {"H4", "a core leaves twice", 9, 8, "160 126 1 LEAVE 11 0 1 1 0"},
    {"H4", "a core enters after the end", 15, 15, "230 140 2 BLOCK_DONE 12 0 0 2 0"},
    {"H4", "two enter after the end, one was late", 19, 18, "280 144 0 GROW 12 0 0 1 0"},
    {"H4", "a late core never comes out", 18, 18, NULL},
};

static void cores_come_and_go_as_they_were_asked(void **state) {
    (void)state;
    history_compare(good, GOOD, bad, sizeof bad / sizeof *bad);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_come_and_go_as_they_were_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
