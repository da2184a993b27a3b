-- post.lua - for wrk: posts a file as a raw binary tensor; the last line of the output is the result as JSON.
function init(args)
    local f = assert(io.open(args[1], "rb"))
    wrk.method = "POST"
    wrk.body = f:read("*a")
    wrk.headers["Inference-Header-Content-Length"] = "0"
    wrk.headers["Content-Type"] = "application/octet-stream"
    f:close()
end

function done(summary, latency)
    local e = summary.errors
    print(string.format('{"n": %d, "failed": %d, "p50_us": %d, "p99_us": %d, "seconds": %f}', summary.requests,
        e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99),
        summary.duration / 1e6))
end
