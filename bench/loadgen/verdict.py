# SPDX-License-Identifier: Apache-2.0
"""verdict.py - what LoadGen's own logs say of a run."""

import json
import os

PREFIX = "mlperf_log_"


def log_values(folder):
    """Keys and values of the detailed log, and its errors and warnings."""
    values, said = {}, []
    with open(os.path.join(folder, PREFIX + "detail.txt"), encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line.partition(" ")[2])
            values[entry["key"]] = entry["value"]
            if entry["metadata"]["is_error"] or entry["metadata"]["is_warning"]:
                said.append(str(entry["value"]))
    return values, said


def sentence(text):
    return " ".join(str(text).replace(" * ", " ").split())


def reasons_of(values, said):
    """Why a run is no valid one, in LoadGen's words."""
    found = [sentence(values.get("result_invalid_reason", ""))]
    if values.get("early_stopping_met") is False:
        found.append(sentence(values.get("early_stopping_result", "")))
    met = {
        "result_perf_constraints_met": "Performance constraints satisfied : NO",
        "result_min_duration_met": "Min duration satisfied : NO",
        "result_min_queries_met": "Min queries satisfied : NO",
        "early_stopping_met": "Early stopping satisfied : NO",
    }
    return [text for key, text in met.items() if values.get(key) is False] + [text for text in found + said if text]


def percentile_ms(values, percentile):
    """Of a query's latency; a query of MultiStream has eight samples."""
    by_query = values.get(f"result_{percentile}.00_percentile_per_query_latency_ns")
    return round((by_query or values[latency(percentile)]) / 1e6, 6)


def metric_of(scenario, values):
    """The number that the scenario is about."""
    if scenario == "SingleStream":
        estimate = values.get("early_stopping_latency_ss", 0)
        return {"name": "90th percentile", "unit": "ms", "value": (estimate or values[latency(90)]) / 1e6}
    if scenario == "MultiStream":
        estimate = values.get("early_stopping_latency_ms", 0)
        value = estimate / 1e6 if estimate else percentile_ms(values, 99)
        return {"name": "99th percentile of 8", "unit": "ms", "value": value}
    if scenario == "Server":
        return {"name": "completed", "unit": "samples/s", "value": values["result_completed_samples_per_sec"]}
    return {"name": "completed", "unit": "samples/s", "value": values["result_samples_per_second"]}


def latency(percentile):
    return f"result_{percentile}.00_percentile_latency_ns"


def read(scenario, folder):
    """The row of a run: LoadGen's verdict, its reasons and its numbers."""
    values, said = log_values(folder)
    if "result_validity" not in values:
        raise RuntimeError("LoadGen ended without a verdict: " + "; ".join(said))
    valid = values["result_validity"] == "VALID"
    return {
        "verdict": values["result_validity"],
        "reasons": [] if valid else reasons_of(values, said),
        "metric": metric_of(scenario, values),
        "queries": values["result_query_count"],
        "late": values.get("result_overlatency_query_count"),
        "p50_ms": percentile_ms(values, 50),
        "p90_ms": percentile_ms(values, 90),
        "p99_ms": percentile_ms(values, 99),
        "loadgen": values["loadgen_version"].split(" ")[0],
        "logs": folder,
    }
