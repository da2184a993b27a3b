"""The library's statistics as dictionaries: every field of its structs, whichever there are."""

from __future__ import annotations

from typing import Any

from ._core import Core
from ._models import Model
from ._native import asked, ffi, lib, text

_QUANTILES = (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99))


def _plain(value: Any, of: Any) -> Any:
    """A field of that C type as numbers, strings, lists and dictionaries."""
    if of.kind == "primitive":
        return value
    if of.kind == "array":
        return text(value) if of.item.cname == "char" else [_plain(v, of.item) for v in value]
    if of == ffi.typeof("moire_histogram"):
        told = {"count": value.count, "sum_ns": value.sum_ns, "max_ns": value.max_ns}
        quantile = lib.moire_histogram_quantile
        return told | {name: quantile(ffi.addressof(value), q) for name, q in _QUANTILES}
    return {
        name: _plain(getattr(value, name), field.type)
        for name, field in of.fields
        if name != "size"
    }


def _told(struct: str, ask: Any, handle: Any) -> dict[str, Any]:
    told: dict[str, Any] = _plain(asked(struct, ask, handle)[0], ffi.typeof(struct))
    return told


def runtime_stats(handle: Any) -> dict[str, Any]:
    """Statistics of a runtime."""
    return _told("moire_runtime_stats", lib.moire_runtime_get_stats, handle)


def tenant_stats(model: Model, core: Core) -> dict[str, Any]:
    """Statistics of a model: of its tenant, or of the tenants of its shapes."""
    with model.held() as tenants:
        told = [
            _told("moire_tenant_stats", lib.moire_tenant_get_stats, tenant.handle)
            | {"inputs": dict(zip((port.name for port in model.inputs), tenant.key))}
            for tenant in tenants
        ]
    if len(told) == 1:
        return told[0]
    counts: dict[str, int] = {}
    for one in told:
        for name, count in one["counts"].items():
            counts[name] = counts.get(name, 0) + count
    return {"counts": counts, "shapes": told}
