// SPDX-License-Identifier: Apache-2.0
//
// moire_query.hpp - a query that is submitted, waited for and used again.  moire.hpp includes it.
//
// What callbacks write lies in a state of its own, which stays where it is while the query moves.  The
// runtime has one or two things to say of a query: its answer, and that lent inputs are back.  The state
// counts them, and is not freed before the last.
#ifndef MOIRE_QUERY_HPP
#define MOIRE_QUERY_HPP

#include <moire.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace moire {

// One query at a time, and its answer.  At its end, one that is not answered is cancelled and waited for.
// While it lives it keeps the runtime that it was last submitted to, as a tenant does.
class query {
  public:
    query() : state_(std::make_unique<state>()) {
        state_->answer.code = MOIRE_EINVAL;
    }
    query(query &&) noexcept = default;
    query &operator=(query &&other) noexcept {
        query(std::move(other)).state_.swap(state_);
        return *this;
    }
    ~query() {
        if (!state_) return;
        (void)state_->cancel();
        state_->wait();
    }
    // Submits a query; inputs are copied before it returns.  The one before must be answered.
    template <class In = tensors>
    void submit(const tenant &to, const In &inputs, const moire_query_options *options = nullptr) {
        send(to, inputs, options, false);
    }
    // The same without that copy: the inputs' data stay as they are until the query is ready.
    template <class In = tensors>
    void lend(const tenant &to, const In &inputs, const moire_query_options *options = nullptr) {
        send(to, inputs, options, true);
    }
    // The same, and outputs are not copied either: `reader` takes the answer while it lies in the runtime's
    // memory, if it is MOIRE_OK: reader(const moire_answer &), on a thread of the runtime.  What it throws
    // comes out of get().  It must live until the query is ready.
    template <class In = tensors, class Reader>
    void read(const tenant &to, const In &inputs, Reader &reader,
              const moire_query_options *options = nullptr) {
        const auto call = [](void *user, const moire_answer &answer) {
            (*static_cast<Reader *>(user))(answer);
        };
        send(to, inputs, options, true, call, &reader);
    }
    // Whether nothing is under way: the answer is there, and lent inputs are the caller's again.
    bool ready() const {
        state &s = held();
        const std::lock_guard<std::mutex> guard(s.lock);
        return s.open == 0;
    }
    void wait() const {
        held().wait();
    }
    // Whether it is ready within that time.
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> time) const {
        state &s = held();
        std::unique_lock<std::mutex> lock(s.lock);
        return s.changed.wait_for(lock, time, [&] { return s.open == 0; });
    }
    // Waits for the answer and throws its code when that is not MOIRE_OK.  The answer and its outputs belong
    // to the query, until it is submitted again; after read() there are no outputs.
    const moire_answer &get() const {
        state &s = held();
        s.wait();
        if (s.thrown) std::rethrow_exception(s.thrown);
        if (s.answer.code != MOIRE_OK) throw s.failure;
        return s.answer;
    }
    // As get(), one output of it.
    tensor_view output(int index) const {
        const moire_answer &answer = get();
        if (index < 0 || index >= answer.n_outputs)
            throw error(MOIRE_EINVAL, "the answer has no such output");
        return answer.outputs[index];
    }
    // Whether the query will end MOIRE_ECANCELLED; else it is answered, or never was submitted.
    bool cancel() const noexcept {
        return state_ && state_->cancel();
    }

  private:
    using reading = void (*)(void *reader, const moire_answer &answer);

    struct state {
        std::mutex lock;
        std::condition_variable changed;
        int open = 0; // things that the runtime still has to say
        std::shared_ptr<detail::core> owner;
        moire_query id = 0;
        reading call = nullptr; // else keep()
        void *reader = nullptr;
        moire_answer answer{}; // with outputs and bytes of its own
        error failure{MOIRE_EINVAL, "nothing was submitted by this query"}; // where answer.code is none
        std::exception_ptr thrown;
        std::vector<moire_tensor> outputs;
        std::vector<unsigned char> bytes;

        void wait() {
            std::unique_lock<std::mutex> guard(lock);
            changed.wait(guard, [&] { return open == 0; });
        }
        bool cancel() noexcept {
            return owner && moire_cancel(owner->runtime, id) == MOIRE_OK;
        }
        // The last one lets whoever waits free the state, so it is told under the lock.
        void said() noexcept {
            const std::lock_guard<std::mutex> guard(lock);
            if (--open == 0) changed.notify_all();
        }
        void keep(const moire_answer &from) {
            constexpr std::size_t line = alignof(std::max_align_t);
            const auto room = [](const moire_tensor &t) { return (t.bytes + line - 1) / line * line; };
            std::size_t total = 0;
            outputs.assign(from.outputs, from.outputs + from.n_outputs);
            for (const moire_tensor &output : outputs)
                total += room(output);
            if (bytes.size() < total) bytes = std::vector<unsigned char>(total);
            unsigned char *to = bytes.data();
            for (moire_tensor &output : outputs) {
                if (output.bytes) std::memcpy(to, output.data, output.bytes);
                output.data = to;
                to += room(output);
            }
            answer.outputs = outputs.data();
            answer.n_outputs = from.n_outputs;
        }
        static void on_answer(void *user, const moire_answer *from) noexcept {
            state &s = *static_cast<state *>(user);
            try {
                s.answer = *from;
                s.answer.message = "";
                s.answer.outputs = nullptr;
                s.answer.n_outputs = 0;
                if (from->code != MOIRE_OK)
                    s.failure = error(from->code, from->message);
                else
                    s.call ? s.call(s.reader, *from) : s.keep(*from);
            } catch (...) {
                s.thrown = std::current_exception();
            }
            s.said();
        }
        static void on_returned(void *user) noexcept {
            static_cast<state *>(user)->said();
        }
    };

    state &held() const {
        return state_ ? *state_ : throw error(MOIRE_EINVAL, "this query was moved from");
    }
    template <class In>
    void send(const tenant &to, const In &inputs, const moire_query_options *given, bool lent,
              reading call = nullptr, void *reader = nullptr) {
        state &s = held();
        if (!ready()) throw error(MOIRE_EINVAL, "the query is not answered yet: wait for it, or use another");
        if (given && given->returned)
            throw error(MOIRE_EINVAL, "options.returned is the query's own: use lend()");
        moire_tenant *tenant = to.handle();
        query_options options;
        if (given) static_cast<moire_query_options &>(options) = *given;
        if (lent) options.returned = state::on_returned;
        if (s.owner != to.core_) s.owner = to.core_;
        s.call = call;
        s.reader = reader;
        s.thrown = nullptr;
        s.id = 0;
        s.open = lent ? 2 : 1;
        moire_error err;
        err.message[0] = 0;
        moire_query id = 0;
        const int code = moire_submit_with(tenant, detail::first(inputs), detail::count(inputs), &options,
                                           state::on_answer, &s, &id, &err);
        s.id = id;
        if (code == MOIRE_OK) return;
        s.answer.code = code;
        s.open = 0; // it was not accepted: nothing will be said
        s.failure = error(code, err.message);
        throw s.failure;
    }
    std::unique_ptr<state> state_;
};

} // namespace moire
#endif
