/* SPDX-License-Identifier: Apache-2.0
 * served_model.h - a whole server in the fuzzer's process, which all inputs share. */
#ifndef TESTS_SERVED_MODEL_H
#define TESTS_SERVED_MODEL_H
#include "serve/server_impl.h"

/* Its bounds are low, so that inputs reach them.  It has the models `m` and, slower, `s`: x [n,4] floats ->
 * y, and the shared memory SERVED_KEY.  Its HTTP listens on the socket file options.unix_path. */
enum { SERVED_BODY = 16 << 10, SERVED_REGION = 4096 };
#define SERVED_KEY "/moire-fuzz-1"

/* Made at the first call; it ends with the process. */
struct ms_server *served(void);
/* What a client can change of it is as at the start. */
void served_reset(struct ms_server *server);
#endif
