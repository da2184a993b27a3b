/* SPDX-License-Identifier: Apache-2.0
 *
 * moire_threads.h - what threads of the host may be to a runtime: its workers, loaders that hold up nobody,
 * or those that nobody is to hold up. moire.h includes it.
 */
#ifndef MOIRE_THREADS_H
#define MOIRE_THREADS_H
#include "moire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lends the calling thread as worker `core` (0 .. threads-1) of a runtime made with lend_workers, until that
 * is destroyed.  Every core needs one before models load.  For hosts that have a team already:
 *   #pragma omp parallel num_threads(n + 1)
 *   { if (omp_get_thread_num()) moire_work(rt, omp_get_thread_num() - 1); else { serve(rt); destroy(rt); } }
 * Returns: MOIRE_OK when the runtime was destroyed; MOIRE_EINVAL: runtime is NULL or has threads of its own,
 * there is no such core, or it has its worker; MOIRE_EFORKED. */
MOIRE_API int moire_work(moire_runtime *runtime, int core);

/* Says that what the calling thread does can wait for every other thread of the machine, from now on and for
 * good: for a thread that loads models while others are served.  It keeps a tenth of a core that others want
 * always, so its loads end; threads that it starts are like it.
 * Returns: MOIRE_OK; MOIRE_EIO: the system refuses, and the thread stays as it was. */
MOIRE_API int moire_background(void);

/* Says that others wait for what the calling thread does, microseconds at a time, from now on: for a thread
 * that passes queries and answers on.  When it wakes up, it has a core at once, also where workers compute on
 * all of them; it gets no more time than others.  From Linux 6.12 on; without effect before.
 * Returns: MOIRE_OK; MOIRE_EIO: the system refuses, and the thread stays as it was. */
MOIRE_API int moire_foreground(void);

#ifdef __cplusplus
}
#endif
#endif
