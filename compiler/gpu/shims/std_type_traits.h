// The part of <type_traits> that kernels use.
#pragma once

namespace std {
template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant;
  __host__ __device__ constexpr operator T() const { return V; }
};
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <bool B>
using bool_constant = integral_constant<bool, B>;

template <class A, class B>
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <class A, class B>
inline constexpr bool is_same_v = is_same<A, B>::value;

template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;

template <bool B, class T, class F>
struct conditional {
  using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;

template <class T>
struct remove_const {
  using type = T;
};
template <class T>
struct remove_const<const T> {
  using type = T;
};
template <class T>
struct remove_volatile {
  using type = T;
};
template <class T>
struct remove_volatile<volatile T> {
  using type = T;
};
template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
using remove_const_t = typename remove_const<T>::type;
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
struct remove_cv {
  using type = typename remove_volatile<typename remove_const<T>::type>::type;
};
template <class T>
using remove_cv_t = typename remove_cv<T>::type;

template <class T>
struct is_floating_point : bool_constant<is_same<remove_cv_t<T>, float>::value ||
                                         is_same<remove_cv_t<T>, double>::value> {};
template <class T>
struct is_integral_unqualified : false_type {};
template <>
struct is_integral_unqualified<bool> : true_type {};
template <>
struct is_integral_unqualified<char> : true_type {};
template <>
struct is_integral_unqualified<signed char> : true_type {};
template <>
struct is_integral_unqualified<unsigned char> : true_type {};
template <>
struct is_integral_unqualified<short> : true_type {};
template <>
struct is_integral_unqualified<unsigned short> : true_type {};
template <>
struct is_integral_unqualified<int> : true_type {};
template <>
struct is_integral_unqualified<unsigned> : true_type {};
template <>
struct is_integral_unqualified<long> : true_type {};
template <>
struct is_integral_unqualified<unsigned long> : true_type {};
template <>
struct is_integral_unqualified<long long> : true_type {};
template <>
struct is_integral_unqualified<unsigned long long> : true_type {};
template <class T>
struct is_integral : is_integral_unqualified<remove_cv_t<T>> {};
template <class T>
inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T>
inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
}  // namespace std
