/* SPDX-License-Identifier: Apache-2.0
 * breaks.h - a plugin around another one, which breaks its process when it is told to.
 *
 * The environment of the process names the plugin inside (MOIRE_TEST_PLUGIN) and a file (MOIRE_TEST_FAULT).
 * A run looks for the file; what it finds there happens, once:
 *   kill, segv    the process ends by that signal
 *   stop          it is stopped, as a process is that the system has forgotten
 *   swallow       the run is accepted and never ends
 *   refuse        the run is refused for want of memory
 *   scribble      the channel of child_wire.h is filled with noise
 *   forge         an answer to a run that was not asked for
 *   NUMBER        the next kernel of the fake driver has this result; 0: it hangs
 * "never" in the file makes open() fail, for as long as it is there. */
#ifndef MO_BREAKS_H
#define MO_BREAKS_H
#define BREAKS_PLUGIN "MOIRE_TEST_PLUGIN"
#define BREAKS_FAULT  "MOIRE_TEST_FAULT"
#endif
