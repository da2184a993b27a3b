/* SPDX-License-Identifier: Apache-2.0
 * veltair_example.h - a small model whose blocks are worked out by hand.
 *
 * Five layers, 8 cores, a target of 1000 ns.
 *
 *   layer  operations  share   ns on n cores   Core
 *   0          40       400       1600 / n       4     1600 / 4 = 400
 *   1          10       100        100 / n       1
 *   2          10       100        250           1     in time on no count, and none is faster than one
 *   3          30       300       2100 / n       7     2100 / 7 = 300
 *   4          10       100        200 / n       2
 *
 * The whole model takes 4000 / n + 250 ns: 1050 on five cores, 916 on six, so Avg_C = 6.
 *
 *   alone        thres = (8 - 6) x 6 / 6 = 2: no layer has a Core of 8 or more; one block, 6 cores
 *   two of them  6 + 6 > 8, thres = 0: layer 3 is a pivot, 7 >= 6; two blocks
 *                layers 0 to 2: 600 ns for 1700 / n + 250: 675 on four cores, 590 on five: 5 cores
 *                layers 3, 4:   400 ns for 2300 / n:       460 on five cores, 383 on six:  6 cores */
#ifndef MO_TEST_VELTAIR_EXAMPLE_H
#define MO_TEST_VELTAIR_EXAMPLE_H
#include "runtime/profile/profile.h"

enum { CORES = 8, LAYERS = 5, TARGET = 1000 };

struct mo_profile *veltair_example(void);
#endif
