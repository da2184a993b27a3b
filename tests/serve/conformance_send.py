"""conformance_send.py - asks a server, and puts its answers into a form that can be kept and compared."""
import gzip
import http.client
import json
import zlib

import grpc
from google.protobuf import json_format
from tritonclient.grpc import service_pb2


def ask_http(port, request, seconds=10):
    """status, content type, document (of JSON), the binary part; "" where there is no answer."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        c.request(request["method"], request["path"], request["body"], request["headers"])
        return http_answer(c.getresponse())
    except (OSError, http.client.HTTPException) as e:
        return {"status": type(e).__name__}
    finally:
        c.close()


def http_answer(answer):
    body = answer.read()
    coding = answer.headers.get("Content-Encoding")
    if coding == "gzip":
        body = gzip.decompress(body)
    elif coding == "deflate":
        body = zlib.decompress(body)
    length = answer.headers.get("Inference-Header-Content-Length")
    text = body[:int(length)] if length else body
    made = {"status": answer.status}
    if coding:
        made["coding"] = coding
    try:
        made["document"] = json.loads(text) if text else None
    except ValueError:
        made["text"] = text[:200].decode("utf-8", "replace")
    if length:
        made["binary"] = body[int(length):].hex()
    return made


def error_of(answer):
    document = answer.get("document")
    return document.get("error") if isinstance(document, dict) else None


def form(value):
    """The members and types of a document."""
    if isinstance(value, dict):
        return {k: form(v) for k, v in value.items()}
    if isinstance(value, list):
        return form(value[0]) if value else None
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def near(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return isinstance(a, (int, float)) and isinstance(b, (int, float)) and abs(a - b) <= 1e-6 * max(1, abs(b))
    return a == b and isinstance(a, bool) == isinstance(b, bool)


UNLIKE = ("platform", "backend")  # they say who answers


def differences(theirs, ours, where=""):
    """What differs of two documents, as lines."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        lines = [f"{where}.{k} is missing" for k in theirs if k not in ours]
        lines += [f"{where}.{k} is more" for k in ours if k not in theirs]
        for k in theirs:
            if k in ours and k not in UNLIKE:
                lines += differences(theirs[k], ours[k], f"{where}.{k}")
        return lines
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return [f"{where} has {len(ours)} elements, not {len(theirs)}"]
        return [line for i, (t, o) in enumerate(zip(theirs, ours)) for line in differences(t, o, f"{where}[{i}]")]
    return [] if near(theirs, ours) else [f"{where} is {json.dumps(ours)[:60]}, not {json.dumps(theirs)[:60]}"]


def kept(how, answer):
    """What of an answer is compared."""
    if how == "form" and error_of(answer) is None and "document" in answer:
        return {**answer, "document": form(answer["document"])}
    return answer


def without_texts(document):
    """Errors of streams, which stand in answers."""
    if isinstance(document, list):
        return [without_texts(d) for d in document]
    if isinstance(document, dict):
        return {k: bool(v) if k == "error_message" else v for k, v in document.items()}
    return document


def compare(theirs, ours):
    """Lines that say how ours differs from theirs; the text of an error may."""
    if theirs["status"] != ours["status"]:
        return [f"status {ours['status']}, not {theirs['status']}"]
    if error_of(theirs) is not None and error_of(ours) is not None:
        return []
    lines = [f"{k} is {ours.get(k)!r:.60}, not {theirs.get(k)!r:.60}" for k in ("coding", "text", "binary")
             if theirs.get(k) != ours.get(k)]
    return lines + differences(without_texts(theirs.get("document")), without_texts(ours.get("document")), "document")


# --- gRPC --------------------------------------------------------------------------------------------------
SERVICE = "/inference.GRPCInferenceService/"
NAMES = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name


def answer_document(method, answer):
    """A message as JSON, raw outputs as hexadecimal text."""
    kind = NAMES[method].output_type._concrete_class if method in NAMES else None
    if kind is None:
        return answer.hex()
    message = kind.FromString(answer)
    made = json_format.MessageToDict(message, preserving_proto_field_name=True,
                                     always_print_fields_with_no_presence=True)
    inner, part = (made, message) if method != "ModelStreamInfer" else (made.get("infer_response", {}), message.infer_response)
    if "raw_output_contents" in inner:
        inner["raw_output_contents"] = [r.hex() for r in part.raw_output_contents]
    return made


def ask_grpc(port, request, seconds=10):
    """status (a name), document; a stream's answers are a list."""
    method, messages = request
    many = isinstance(messages, list)
    path = method if method.startswith("/") else SERVICE + method
    bodies = [m if isinstance(m, bytes) else m.SerializeToString() for m in (messages if many else [messages])]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            if many:
                answers = list(channel.stream_stream(path)(iter(bodies), timeout=seconds))
                return {"status": "OK", "document": [answer_document(method, a) for a in answers]}
            return {"status": "OK", "document": answer_document(method, channel.unary_unary(path)(bodies[0], timeout=seconds))}
        except grpc.RpcError as e:
            return {"status": e.code().name, "document": {"error": e.details()}}
