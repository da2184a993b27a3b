// SPDX-License-Identifier: Apache-2.0
//
// moire.hpp - moire.h for C++17: handles that clean up, errors as exceptions, answers that are waited for.
//
// Header only, over the public C interface: it adds no symbol to libmoire, and handle() gives the C handle
// wherever a call has no counterpart here.
//
// Errors.  What fails throws moire::error, which has the code and the line that says what to do.  Destructors
// throw nothing.  No exception leaves a callback of the runtime: what copying an answer, or a reader, throws
// comes out of query::get(); a handler must be noexcept, which the compiler checks.
//
// Ownership.  Handles move and do not copy.  What was moved from may be destroyed, assigned to and asked
// whether it holds something; every other call throws MOIRE_EINVAL.  A tenant keeps its runtime's threads
// alive, so the order in which both go does not matter; runtime::close() ends them at once, and its tenants
// then throw MOIRE_ESHUTDOWN.  A tensor_view owns nothing: who made its data keeps them.
//
// Memory.  Submitting, waiting and reading allocate nothing but what the C calls do, once a query has seen an
// answer of that size: it keeps its room, so use it again.
//
// Threads.  As in moire.h: any thread at any time, but no call on a handle may overlap one that moves, closes
// or destroys it.  A query is one thread's at a time, and not for callbacks, since it waits.
#ifndef MOIRE_HPP
#define MOIRE_HPP

#include <moire.h>

#include <moire_values.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace moire {

class query; // moire_query.hpp

namespace detail {

// The runtime, and what must outlive it.
struct core {
    moire_runtime *runtime = nullptr;
    std::function<void(int, const char *)> log;

    core() = default;
    core(const core &) = delete;
    core &operator=(const core &) = delete;
    ~core() {
        moire_runtime_destroy(runtime, 1);
    }
    static void on_log(void *user, int level, const char *line) noexcept {
        try {
            static_cast<core *>(user)->log(level, line);
        } catch (...) { // a line of the log is lost; the thread of the runtime goes on
        }
    }
};

} // namespace detail

// A config with every field at its default.
struct config : moire_config {
    config() noexcept {
        moire_config_init(this);
    }
};
struct tenant_config : moire_tenant_config {
    tenant_config() noexcept {
        moire_tenant_config_init(this);
    }
};
struct query_options : moire_query_options {
    query_options() noexcept {
        moire_query_options_init(this);
    }
};

// A loaded model; unloaded at its end, when what it has accepted and not begun ends MOIRE_EUNLOADED.
class tenant {
  public:
    tenant() noexcept = default;
    tenant(tenant &&other) noexcept
        : core_(std::move(other.core_)), tenant_(std::exchange(other.tenant_, nullptr)) {}
    tenant &operator=(tenant &&other) noexcept {
        tenant(std::move(other)).swap(*this);
        return *this;
    }
    ~tenant() {
        if (core_ && core_->runtime) moire_unload(tenant_, nullptr);
    }
    void swap(tenant &other) noexcept {
        core_.swap(other.core_);
        std::swap(tenant_, other.tenant_);
    }
    explicit operator bool() const noexcept {
        return core_ && core_->runtime;
    }
    moire_tenant *handle() const {
        if (core_ && !core_->runtime) throw error(MOIRE_ESHUTDOWN, "the runtime of this tenant was closed");
        return tenant_ ? tenant_ : throw error(MOIRE_EINVAL, "this tenant holds no model: it was moved from");
    }
    int n_inputs() const {
        return moire_n_inputs(handle());
    }
    int n_outputs() const {
        return moire_n_outputs(handle());
    }
    moire_port input(int index) const {
        return port(moire_input, index);
    }
    moire_port output(int index) const {
        return port(moire_output, index);
    }
    // Submits a query and waits.  Outputs hold what the model gives; their type, shape and size are set to
    // its.
    template <class In = tensors, class Out> void run(const In &inputs, Out &outputs) const {
        static_assert(std::is_same_v<decltype(std::data(outputs)), moire_tensor *>,
                      "outputs are moire_tensors");
        detail::checked([&](moire_error *err) {
            return moire_run(handle(), detail::first(inputs), detail::count(inputs), std::data(outputs),
                             detail::count(outputs), err);
        });
    }
    // Submits a query whose answer `handler` takes, on a thread of the runtime: handler(const moire_answer
    // &), noexcept.  It must live until it was called.  Returns the query's handle, for runtime::cancel().
    template <class In = tensors, class Handler>
    moire_query submit(const In &inputs, Handler &handler,
                       const moire_query_options *options = nullptr) const {
        static_assert(std::is_nothrow_invocable_v<Handler &, const moire_answer &>,
                      "a handler is noexcept: an exception must not reach the runtime");
        moire_query id = 0;
        const moire_callback call = [](void *user, const moire_answer *answer) noexcept {
            (*static_cast<Handler *>(user))(*answer);
        };
        detail::checked([&](moire_error *err) {
            return moire_submit_with(handle(), detail::first(inputs), detail::count(inputs), options, call,
                                     &handler, &id, err);
        });
        return id;
    }
    void drain() const {
        detail::checked([&](moire_error *err) { return moire_tenant_drain(handle(), err); });
    }
    moire_tenant_stats stats() const {
        moire_tenant_stats stats;
        stats.size = sizeof stats;
        detail::checked([&](moire_error *err) { return moire_tenant_get_stats(handle(), &stats, err); });
        return stats;
    }

  private:
    friend class runtime;
    friend class query;
    tenant(std::shared_ptr<detail::core> core, moire_tenant *handle) noexcept
        : core_(std::move(core)), tenant_(handle) {}
    template <class Of> moire_port port(Of of, int index) const {
        moire_port port;
        if (const int code = of(handle(), index, &port)) throw error(code, "the model has no such port");
        return port;
    }
    std::shared_ptr<detail::core> core_;
    moire_tenant *tenant_ = nullptr;
};

// Worker threads and their policy.  At its end, and that of its tenants, what is accepted is answered.
class runtime {
  public:
    using logger = std::function<void(int level, const char *line)>;

    // `log` takes the place of config.log; what it throws is dropped.
    explicit runtime(moire_config settings = config(), logger log = nullptr)
        : core_(std::make_shared<detail::core>()) {
        if (moire_abi_version() != MOIRE_ABI_VERSION)
            throw error(MOIRE_EUNSUPPORTED,
                        "libmoire has another MOIRE_ABI_VERSION than the program was built with");
        if (log) {
            core_->log = std::move(log);
            settings.log = detail::core::on_log;
            settings.log_user = core_.get();
        }
        detail::checked(
            [&](moire_error *err) { return moire_runtime_create(&settings, &core_->runtime, err); });
    }
    runtime(runtime &&) noexcept = default;
    runtime &operator=(runtime &&) noexcept = default;
    explicit operator bool() const noexcept {
        return core_ && core_->runtime;
    }
    moire_runtime *handle() const {
        if (!core_) throw error(MOIRE_EINVAL, "this runtime was moved from");
        return core_->runtime ? core_->runtime : throw error(MOIRE_ESHUTDOWN, "this runtime was closed");
    }
    tenant load(const char *path, const moire_tenant_config &settings = tenant_config()) const {
        moire_tenant *made = nullptr;
        detail::checked([&](moire_error *err) { return moire_load(handle(), path, &settings, &made, err); });
        return tenant(core_, made);
    }
    // Ends the runtime and its tenants now: accepted queries are answered, or else end MOIRE_ESHUTDOWN.
    void close(bool drain = true) noexcept {
        if (core_) moire_runtime_destroy(std::exchange(core_->runtime, nullptr), drain);
    }
    void drain() const {
        if (const int code = moire_drain(handle())) throw error(code, nullptr);
    }
    // Whether the query will end MOIRE_ECANCELLED; else it has its answer.
    bool cancel(moire_query id) const noexcept {
        return core_ && moire_cancel(core_->runtime, id) == MOIRE_OK;
    }
    std::int64_t now() const {
        return moire_now(handle());
    }
    moire_runtime_stats stats() const {
        moire_runtime_stats stats;
        stats.size = sizeof stats;
        detail::checked([&](moire_error *err) { return moire_runtime_get_stats(handle(), &stats, err); });
        return stats;
    }

  private:
    std::shared_ptr<detail::core> core_;
};

} // namespace moire

#include <moire_query.hpp>
#endif
