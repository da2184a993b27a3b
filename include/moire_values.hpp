// SPDX-License-Identifier: Apache-2.0
//
// moire_values.hpp - errors as exceptions, and tensors over data that others own.  moire.hpp includes it.
//
// A tensor_view adds functions to moire_tensor and no member, so each is the other without a copy of data.
#ifndef MOIRE_VALUES_HPP
#define MOIRE_VALUES_HPP

#include <moire.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <type_traits>

namespace moire {

// A code of moire.h and its line.  Copying it allocates nothing.
class error : public std::exception {
  public:
    error(int code, const char *message) noexcept {
        error_.code = code;
        std::strncat(error_.message, message && *message ? message : moire_code_text(code),
                     sizeof error_.message - 1);
    }
    int code() const noexcept {
        return error_.code;
    }
    const char *name() const noexcept {
        return moire_code_name(error_.code);
    }
    const char *what() const noexcept override {
        return error_.message;
    }

  private:
    moire_error error_{};
};

namespace detail {

// Calls of moire.h with an error to fill: throws what they report.
template <class Call> void checked(Call &&call) {
    moire_error err;
    err.message[0] = 0;
    if (const int code = call(&err)) throw error(code, err.message);
}

template <class T> constexpr moire_dtype dtype() {
    static_assert(std::is_arithmetic_v<T>,
                  "a tensor has numbers or bools: other types are told by a moire_dtype");
    constexpr bool negative = std::is_signed_v<T>;
    if constexpr (std::is_same_v<T, bool>) return MOIRE_BOOL;
    if constexpr (std::is_floating_point_v<T>)
        return sizeof(T) == 4 ? MOIRE_F32 : sizeof(T) == 8 ? MOIRE_F64 : MOIRE_NONE;
    if constexpr (sizeof(T) == 1) return negative ? MOIRE_I8 : MOIRE_U8;
    if constexpr (sizeof(T) == 2) return negative ? MOIRE_I16 : MOIRE_U16;
    if constexpr (sizeof(T) == 4) return negative ? MOIRE_I32 : MOIRE_U32;
    return negative ? MOIRE_I64 : MOIRE_U64;
}

} // namespace detail

// Values of a tensor in a row, not owned.
template <class T> struct values {
    T *first = nullptr;
    std::size_t n = 0;

    T *begin() const noexcept {
        return first;
    }
    T *end() const noexcept {
        return first + n;
    }
    std::size_t size() const noexcept {
        return n;
    }
    T &operator[](std::size_t i) const noexcept {
        return first[i];
    }
};

// A moire_tensor over data that somebody else owns.  Calls take lists of moire_tensor, in braces or any
// contiguous container: {moire::tensor_view(x.data(), {1, 4})}.
struct tensor_view : moire_tensor {
    tensor_view(const moire_tensor &tensor) noexcept : moire_tensor(tensor) {} // also an output of an answer
    // The row-major array at `values`.  Inputs are only read; outputs of tenant::run() are written.
    template <class T> tensor_view(T *values, std::initializer_list<std::int64_t> dims) : moire_tensor{} {
        using value = std::remove_const_t<T>;
        set(detail::dtype<value>(), const_cast<value *>(values), sizeof(T), dims.begin(), dims.size());
    }
    // An array of the shape that a port has.  T is its type; uint16_t where that has 16 bits without a type
    // in C++.
    template <class T> tensor_view(T *values, const moire_port &port) : moire_tensor{} {
        using value = std::remove_const_t<T>;
        require<value>(port.dtype);
        set(port.dtype, const_cast<value *>(values), sizeof(T), port.shape,
            static_cast<std::size_t>(port.rank < 0 ? MOIRE_MAX_RANK + 1 : port.rank));
    }
    // The values, or MOIRE_ESHAPE when they are of another type.
    template <class T> values<const T> as() const {
        require<T>(dtype);
        return {static_cast<const T *>(data), bytes / sizeof(T)};
    }
    values<const std::int64_t> dims() const noexcept {
        return {shape, static_cast<std::size_t>(rank)};
    }

  private:
    template <class T> static void require(moire_dtype type) {
        const bool bits = std::is_same_v<T, std::uint16_t> && (type == MOIRE_F16 || type == MOIRE_BF16);
        if (detail::dtype<T>() != type && !bits)
            throw error(MOIRE_ESHAPE, "the tensor is of another type than its values are taken for");
    }
    void set(moire_dtype type, void *values, std::size_t size, const std::int64_t *dims, std::size_t n) {
        if (n > MOIRE_MAX_RANK)
            throw error(MOIRE_EINVAL, "a tensor has a known rank of MOIRE_MAX_RANK at most");
        dtype = type;
        rank = static_cast<int>(n);
        data = values;
        bytes = size;
        for (std::size_t i = 0; i < n; i++) {
            if (dims[i] < 0 || (dims[i] && bytes > PTRDIFF_MAX / static_cast<std::uint64_t>(dims[i])))
                throw error(MOIRE_EINVAL, "a dimension of a tensor is negative, or too large");
            shape[i] = dims[i];
            bytes *= static_cast<std::size_t>(dims[i]);
        }
    }
};

namespace detail {

template <class List> const moire_tensor *first(const List &list) {
    static_assert(
        std::is_same_v<std::remove_cv_t<std::remove_pointer_t<decltype(std::data(list))>>, moire_tensor>,
        "a list of inputs has elements of type moire_tensor");
    return std::data(list);
}
template <class List> int count(const List &list) {
    return static_cast<int>(std::min<std::size_t>(std::size(list), INT_MAX));
}

} // namespace detail

using tensors = std::initializer_list<moire_tensor>;

} // namespace moire
#endif
