# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The count of finished requests in a vLLM server's metrics."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.bringup.plugins.plugin_utils.check.inference_acceptance.observe_inference import (
    finished_requests,
)
from ansible_collections.gpufleet.bringup.plugins.plugin_utils.outcome.errors import InputError

# Names and labels of vllm/v1/metrics/loggers.py, as prometheus_client writes them.
REAL = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 0.0
# HELP vllm:request_success_total Count of successfully processed requests.
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="Qwen/Qwen3-8B"} 1.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="Qwen/Qwen3-8B"} 20481.0
vllm:request_success_total{engine="1",finished_reason="length",model_name="Qwen/Qwen3-8B"} 1.2e+06
vllm:request_success_created{engine="1",finished_reason="length",model_name="Qwen/Qwen3-8B"} 1.76e+09
"""


def test_requests_are_counted_by_engine() -> None:
    assert finished_requests(REAL) == {0: 20482, 1: 1_200_000}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>login</html>",
        REAL.replace("request_success", "request_ok"),
        REAL.replace('engine="1"', 'rank="1"'),
        REAL.replace("20481.0", "many"),
        REAL.replace("20481.0", "1e"),
        REAL.replace("20481.0", ""),
    ],
)
def test_what_is_no_count_is_an_error(text: str) -> None:
    with pytest.raises(InputError):
        finished_requests(text)


def test_one_long_line_is_not_read() -> None:
    with pytest.raises(InputError):
        finished_requests("vllm:request_success_total{" + "a," * 200_000)
