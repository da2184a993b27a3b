/* SPDX-License-Identifier: Apache-2.0
 * exits.c - see exits.h. */
#include "tools/moire/command_line/exits.h"

#include "moire.h"

const struct mo_exit_row *mo_exits(void) {
    static const struct mo_exit_row rows[] = {
        {MO_EXIT_OK, "done", "The command did what it was asked to do."},
        {MO_EXIT_USAGE, "usage",
         "The command line is wrong: a verb, flag or value that there is not, or a name that stands for "
         "nothing: "
         "of a model, scenario, machine, policy, planner, or of an input that the model does not have.  The "
         "message names what comes nearest."},
        {MO_EXIT_INPUT, "bad model or data",
         "A file was read, but what it holds is malformed, does not fit (shapes and types), exceeds a limit, "
         "or is not "
         "supported: by moire, or by this machine, as a GPU that it does not have."},
        {MO_EXIT_SYSTEM, "system",
         "Something outside failed: a file that is missing or cannot be read or written, memory, the store "
         "of "
         "compiled kernels, the C compiler, threads, a GPU that was lost."},
        {MO_EXIT_FAILED, "failed",
         "The command ran to its end, but a check, a goal or an execution failed.  The verb's page says "
         "which."},
        {MO_EXIT_INTERRUPTED, "interrupted",
         "Ctrl-C or SIGTERM ended it in good order; what had been done by then is reported or kept."},
        {MO_EXIT_OK, NULL, NULL}};
    return rows;
}

enum mo_exit mo_exit_of(int code) {
    switch (code) {
    case MOIRE_OK:
        return MO_EXIT_OK;
    case MOIRE_EINVAL:
        return MO_EXIT_USAGE;
    case MOIRE_EFORMAT:
    case MOIRE_EUNSUPPORTED:
    case MOIRE_ESHAPE:
    case MOIRE_ELIMIT:
        return MO_EXIT_INPUT;
    case MOIRE_EFAILED:
    case MOIRE_EEXPIRED:
    case MOIRE_ESHED:
        return MO_EXIT_FAILED;
    case MOIRE_EINTERRUPTED:
        return MO_EXIT_INTERRUPTED;
    default:
        return MO_EXIT_SYSTEM;
    }
}
