"""One embedder for all parts that name the same model."""

from __future__ import annotations

from typing import Any

from openclaw_cache.embedding.embedder import Embedder
from openclaw_cache.embedding.shared import Embedders

URL = "http://127.0.0.1:9/v1"


def share(embedders: Embedders, timeout_s: float, **changed: Any) -> Embedder:
    wanted = {"name": URL, "model": "m", "api_key": None, "section": "memory", "on_event": print} | changed
    return embedders.get(timeout_s=timeout_s, **wanted)


def inner(one: Embedder) -> Any:
    return one._whole.embedder  # type: ignore[attr-defined]


def test_the_same_model_is_one_embedder_however_patient_its_users_are() -> None:
    embedders = Embedders()
    quick, patient, quicker = (share(embedders, seconds) for seconds in (1.0, 2.0, 0.5))
    assert inner(quick) is inner(patient) is inner(quicker)
    assert inner(quick)._timeout_s == 2.0


def test_another_model_or_key_is_another_embedder() -> None:
    embedders = Embedders()
    one = share(embedders, 1.0)
    assert inner(one) is not inner(share(embedders, 1.0, model="other"))
    assert inner(one) is not inner(share(embedders, 1.0, api_key="k"))
