/* SPDX-License-Identifier: Apache-2.0
 * h2.h - nghttp2, loaded at run time: HTTP/2 without sockets. */
#ifndef MS_H2_H
#define MS_H2_H
#include <nghttp2/nghttp2.h>
#include "moire.h"

/* X(name): what is called of it */
#define MS_H2_CALLS(X)                                                                                       \
    X(session_callbacks_new)                                                                                 \
    X(session_callbacks_del)                                                                                 \
    X(session_callbacks_set_on_begin_headers_callback)                                                       \
    X(session_callbacks_set_on_header_callback)                                                              \
    X(session_callbacks_set_on_frame_recv_callback)                                                          \
    X(session_callbacks_set_on_frame_send_callback)                                                          \
    X(session_callbacks_set_on_data_chunk_recv_callback)                                                     \
    X(session_callbacks_set_on_stream_close_callback)                                                        \
    X(session_callbacks_set_send_data_callback)                                                              \
    X(option_new)                                                                                            \
    X(option_del)                                                                                            \
    X(option_set_no_auto_window_update)                                                                      \
    X(session_server_new2)                                                                                   \
    X(session_client_new2)                                                                                   \
    X(session_del)                                                                                           \
    X(session_mem_recv)                                                                                      \
    X(session_mem_send)                                                                                      \
    X(session_want_read)                                                                                     \
    X(session_want_write)                                                                                    \
    X(session_resume_data)                                                                                   \
    X(session_consume_connection)                                                                            \
    X(session_consume_stream)                                                                                \
    X(session_get_last_proc_stream_id)                                                                       \
    X(session_get_remote_settings)                                                                           \
    X(session_get_stream_user_data)                                                                          \
    X(session_set_stream_user_data)                                                                          \
    X(session_get_stream_remote_close)                                                                       \
    X(session_set_local_window_size)                                                                         \
    X(submit_settings)                                                                                       \
    X(submit_request)                                                                                        \
    X(submit_response)                                                                                       \
    X(submit_trailer)                                                                                        \
    X(submit_rst_stream)                                                                                     \
    X(submit_goaway)

struct ms_h2 {
    void *library;
#define MS_H2_FIELD(name) __typeof__(nghttp2_##name) *name;
    MS_H2_CALLS(MS_H2_FIELD)
#undef MS_H2_FIELD
};

/* Returns: MOIRE_OK; MOIRE_EUNSUPPORTED: it is not installed. */
int ms_h2_open(struct ms_h2 *out, moire_error *err);
void ms_h2_close(struct ms_h2 *h2);
#endif
