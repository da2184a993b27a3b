/* SPDX-License-Identifier: Apache-2.0
 * mhd.h - libmicrohttpd, loaded at run time: only who serves needs it, and bundles that link everything else
 * run without it. */
#ifndef MS_MHD_H
#define MS_MHD_H
#include <microhttpd.h>
#include "moire.h"

/* X(name): what is called of it */
#define MS_MHD_CALLS(X)                                                                                      \
    X(start_daemon)                                                                                          \
    X(stop_daemon)                                                                                           \
    X(quiesce_daemon)                                                                                        \
    X(is_feature_supported)                                                                                  \
    X(get_connection_values)                                                                                 \
    X(get_daemon_info)                                                                                       \
    X(suspend_connection)                                                                                    \
    X(resume_connection)                                                                                     \
    X(get_connection_info)                                                                                   \
    X(lookup_connection_value)                                                                               \
    X(create_response_from_buffer)                                                                           \
    X(add_response_header)                                                                                   \
    X(queue_response)                                                                                        \
    X(destroy_response)

struct ms_mhd {
    void *library;
#define MS_MHD_FIELD(name) __typeof__(MHD_##name) *name;
    MS_MHD_CALLS(MS_MHD_FIELD)
#undef MS_MHD_FIELD
};

/* Returns: MOIRE_OK; MOIRE_EUNSUPPORTED: it is not installed. */
int ms_mhd_open(struct ms_mhd *out, moire_error *err);
void ms_mhd_close(struct ms_mhd *mhd);
#endif
