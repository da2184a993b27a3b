/* SPDX-License-Identifier: Apache-2.0
 * flag_rows_scale.c - the flags of `moire scale`; see flag_rows.c. */
#include "tools/moire/command_line/flag_rows.h"

#define SCALES (ON(SCALE_HAPROXY) | ON(SCALE_KSERVE) | ON(SCALE_RAY))

static const struct mo_flag rows[] = {
    {"--output", "DIR", SCALES, TO(output), "folder of the files, made where it is missing", .needed = SCALES,
     .names = MO_NAMES_OUTPUT_FOLDER, .other = "-o"},
    {"--listen", "ADDRESS:PORT", ON(SCALE_HAPROXY), TO(listen), "where clients ask; '*' is every address",
     .initial = "*:8000"},
    {"--agent-step", "N", ON(SCALE_HAPROXY), TO(agent_step),
     "port of a node's agent (`moire serve --agent-port`), less that of its queries; 0: there are none",
     .initial = "1000", .most = 65534},
    {"--image", "NAME", ON(SCALE_KSERVE), TO(image), "the container that serves", .initial = "moire:latest"},
};

const struct mo_flag_rows mo_flag_rows_scale = {rows, (int)(sizeof rows / sizeof *rows)};
