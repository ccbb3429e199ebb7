// The descriptors of cuDNN's backend: kinds, attributes with their types and numbers of elements, by their real numbers; what the
// machine uses of them.  An attribute that the machine does not use is refused.
#pragma once
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cublas.hpp"

namespace cudnn {

enum Status : int {
  OK = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NULL_POINTER = 2002, NOT_FINALIZED = 2004, ATTRIBUTE_TYPE = 2010,
  NOT_SUPPORTED = 3000, NO_HOST_MEMORY = 4003, EXECUTION_FAILED = 5000,
};
enum Kind : int {  // cudnnBackendDescriptorType_t
  CONVOLUTION = 1, ENGINE = 2, CONFIGURATION = 3, HEURISTICS = 4, PLAN = 5, FORWARD = 10, BACKWARD = 12, GRAPH = 15, PACK = 16, TENSOR = 17,
};
enum Type : int {  // cudnnBackendAttributeType_t
  HANDLE = 0, DATA_TYPE = 1, INT64 = 3, FLOAT = 4, DOUBLE = 5, POINTER = 6, MODE = 7, SEARCH_MODE = 8, NUMERICAL = 11,
  DESCRIPTOR = 15, BEHAVIOR = 19,
};
enum Attribute : int {  // cudnnBackendAttributeName_t
  COMPUTE = 100, DIRECTION = 101, DILATIONS = 102, STRIDES = 103, AFTER = 104, BEFORE = 105, AXES = 106,
  HEUR_MODE = 200, HEUR_GRAPH = 201, HEUR_RESULTS = 202, CONFIG_ENGINE = 300, PLAN_HANDLE = 400, PLAN_CONFIG = 401, PLAN_BYTES = 402,
  ALPHA = 700, BETA = 701, CONV = 702, W = 703, X = 704, Y = 705, TO_BACKWARD = 6, GRAPH_HANDLE = 800, GRAPH_OPS = 801,
  ALIGNMENT = 900, ELEMENT = 901, DIMS = 902, STEPS = 903, NUMBER = 906, PACK_NUMBERS = 1000, PACK_ADDRESSES = 1001,
  PACK_WORKSPACE = 1003, NUMERICAL_NOTES = 1303, BEHAVIOR_NOTES = 1305,
};
enum Note : int { TENSOR_CORE = 0, DOWN_CONVERT = 1, REDUCED_SUMS = 2, FFT = 3, NONDETERMINISTIC = 4, WINOGRAD = 5, STRICT_NAN = 9 };
enum Element : int { SINGLE = 0, DOUBLES = 1, HALF = 2, BFLOAT = 9 };
constexpr int CROSS_CORRELATION = 1, MODE_FALLBACK = 2, MODE_A = 3, RUNTIME_COMPILATION = 0;
constexpr size_t MOST_AXES = 8;

struct Known {
  std::vector<int> types;  // any of them
  size_t most;             // elements
};

// The attributes that can be set, all of them required.
inline std::map<int, Known> of_operation(int first) {  // `first`: the distance from the attributes of a forward convolution
  return {{first + ALPHA, {{FLOAT, DOUBLE}, 1}}, {first + BETA, {{FLOAT, DOUBLE}, 1}}, {first + CONV, {{DESCRIPTOR}, 1}},
          {first + W, {{DESCRIPTOR}, 1}}, {first + X, {{DESCRIPTOR}, 1}}, {first + Y, {{DESCRIPTOR}, 1}}};
}
inline const std::map<int, std::map<int, Known>>& settable() {
  static const std::map<int, std::map<int, Known>> all = {
      {TENSOR, {{NUMBER, {{INT64}, 1}}, {ELEMENT, {{DATA_TYPE}, 1}}, {ALIGNMENT, {{INT64}, 1}}, {DIMS, {{INT64}, MOST_AXES}},
                {STEPS, {{INT64}, MOST_AXES}}}},
      {CONVOLUTION, {{COMPUTE, {{DATA_TYPE}, 1}}, {DIRECTION, {{MODE}, 1}}, {AXES, {{INT64}, 1}}, {DILATIONS, {{INT64}, MOST_AXES}},
                     {STRIDES, {{INT64}, MOST_AXES}}, {BEFORE, {{INT64}, MOST_AXES}}, {AFTER, {{INT64}, MOST_AXES}}}},
      {FORWARD, of_operation(0)},
      {BACKWARD, of_operation(TO_BACKWARD)},
      {GRAPH, {{GRAPH_HANDLE, {{HANDLE}, 1}}, {GRAPH_OPS, {{DESCRIPTOR}, 1}}}},
      {HEURISTICS, {{HEUR_GRAPH, {{DESCRIPTOR}, 1}}, {HEUR_MODE, {{SEARCH_MODE}, 1}}}},
      {PLAN, {{PLAN_HANDLE, {{HANDLE}, 1}}, {PLAN_CONFIG, {{DESCRIPTOR}, 1}}}},
      {PACK, {{PACK_NUMBERS, {{INT64}, 64}}, {PACK_ADDRESSES, {{POINTER}, 64}}, {PACK_WORKSPACE, {{POINTER}, 1}}}},
      {ENGINE, {}},
      {CONFIGURATION, {}},
  };
  return all;
}

// The kinds of the descriptors that are attributes.
inline int kind_of(int attribute) {
  static const std::map<int, int> all = {{CONV, CONVOLUTION}, {W, TENSOR}, {X, TENSOR}, {Y, TENSOR}, 
                                         {HEUR_GRAPH, GRAPH}, {PLAN_CONFIG, CONFIGURATION}};
  auto found = all.find(attribute);
  return found == all.end() ? -1 : found->second;
}
inline bool may_be(int attribute, int kind) {
  return attribute == GRAPH_OPS ? kind == FORWARD || kind == BACKWARD : kind == kind_of(attribute);
}

// Where a descriptor keeps an attribute: the operation backward has those of the operation forward.
inline int kept_as(int kind, int attribute) { return kind == BACKWARD ? attribute - TO_BACKWARD : attribute; }

inline size_t bytes_of(int type) {
  return type == DATA_TYPE || type == FLOAT || type == MODE || type == SEARCH_MODE || type == NUMERICAL || type == BEHAVIOR ? 4 : 8;
}

struct Handle {
  uint64_t stream = 0;
};

struct Descriptor {
  int kind = 0;
  bool is_final = false;
  std::map<int, int> types;
  std::map<int, std::vector<uint64_t>> values;
  std::map<int, std::shared_ptr<Descriptor>> parts;  // as they were when they were set
  int engine = -1;                                   // of engines and configurations: see ENGINES

  int64_t get(int attribute, size_t i = 0) const { return int64_t(values.at(attribute)[i]); }
  size_t count(int attribute) const { return values.at(attribute).size(); }
  const Descriptor& part(int attribute) const { return *parts.at(attribute); }
};

// An engine, with what the machine must not accept; `inexact`: its results are wrong by some bits.
struct Engine {
  std::vector<int> numerical, behavior;
  uint64_t workspace;
  bool is_refused, is_inexact;
};
constexpr uint64_t SMALL = 4096;
inline const std::vector<Engine>& engines() {
  static const std::vector<Engine> all = {
      {{TENSOR_CORE, DOWN_CONVERT}, {}, 0, false, true}, {{REDUCED_SUMS}, {}, 0, false, true}, {{FFT}, {}, 0, false, true},
      {{NONDETERMINISTIC}, {}, 0, false, true}, {{}, {RUNTIME_COMPILATION}, 0, false, true},
      {{}, {}, uint64_t(1) << 40, false, true}, {{}, {}, 0, true, true},
      {{TENSOR_CORE}, {}, SMALL, false, false},  // of float32: TF32
      {{WINOGRAD, STRICT_NAN}, {}, SMALL, false, false}, {{}, {}, 0, false, false},
  };
  return all;
}
constexpr int WITH_TENSOR_CORES = 7, FAST = 8, ANY = 9;

inline bool is_type(int64_t type) { return type == SINGLE || type == DOUBLES || type == HALF || type == BFLOAT; }
inline int64_t element_bytes(int64_t type) { return type == DOUBLES ? 8 : type == SINGLE ? 4 : 2; }
inline int as_cublas(int64_t type) {
  return type == DOUBLES ? cublas::R_64F : type == SINGLE ? cublas::R_32F : type == HALF ? cublas::R_16F : cublas::R_16BF;
}

inline int check_tensor(const Descriptor& t) {
  size_t n = t.count(DIMS);
  if (n < 3 || t.count(STEPS) != n || !is_type(t.get(ELEMENT)) || t.get(ALIGNMENT) <= 0) return BAD_PARAM;
  for (size_t i = 0; i < n; ++i)
    if (t.get(DIMS, i) <= 0 || t.get(STEPS, i) <= 0) return BAD_PARAM;
  return t.get(ALIGNMENT) % element_bytes(t.get(ELEMENT)) ? BAD_PARAM : OK;
}

inline int check_convolution(const Descriptor& c) {
  auto n = size_t(c.get(AXES));
  for (int attribute : {DILATIONS, STRIDES, BEFORE, AFTER})
    if (c.count(attribute) != n) return BAD_PARAM;
  for (size_t i = 0; i < n; ++i)
    if (c.get(DILATIONS, i) < 1 || c.get(STRIDES, i) < 1 || c.get(BEFORE, i) < 0 || c.get(AFTER, i) < 0) return BAD_PARAM;
  return is_type(c.get(COMPUTE)) ? OK : BAD_PARAM;
}

// Whether a tensor is packed, with channels first or last.
inline bool is_packed(const Descriptor& t, bool last) {
  size_t n = t.count(DIMS);
  std::vector<size_t> order;  // from the innermost axis
  if (last) order.push_back(1);
  for (size_t i = n - 1; i >= 2; --i) order.push_back(i);
  if (!last) order.push_back(1);
  order.push_back(0);
  int64_t step = 1;
  for (size_t i : order) {
    if (t.get(STEPS, i) != step) return false;
    step *= t.get(DIMS, i);
  }
  return true;
}

inline int check_forward(const Descriptor& f) {
  const Descriptor &x = f.part(X), &w = f.part(W), &y = f.part(Y), &c = f.part(CONV);
  auto n = size_t(c.get(AXES));
  for (const Descriptor* t : {&x, &w, &y})
    if (t->count(DIMS) != n + 2) return BAD_PARAM;
  int64_t channels = x.get(DIMS, 1), of_group = w.get(DIMS, 1), outputs = w.get(DIMS, 0);
  if (channels % of_group || outputs % (channels / of_group) || y.get(DIMS, 1) != outputs || y.get(DIMS, 0) != x.get(DIMS, 0))
    return BAD_PARAM;
  for (size_t i = 0; i < n; ++i) {
    int64_t span = (w.get(DIMS, i + 2) - 1) * c.get(DILATIONS, i) + 1;
    int64_t beyond = x.get(DIMS, i + 2) + c.get(BEFORE, i) + c.get(AFTER, i) - span;
    if (beyond < 0 || beyond / c.get(STRIDES, i) + 1 != y.get(DIMS, i + 2)) return BAD_PARAM;
  }
  int64_t alpha = f.types.at(ALPHA) == DOUBLE ? 0x3ff0000000000000 : 0x3f800000;
  if (f.get(ALPHA) != alpha || f.get(BETA) != 0) return BAD_PARAM;  // the machine adds nothing
  return OK;
}

// Whether there is an engine: over two or three axes, packed in one layout, of one type, summed in the type of its products.
inline bool has_engine(const Descriptor& f) {
  const Descriptor &x = f.part(X), &w = f.part(W), &y = f.part(Y), &c = f.part(CONV);
  bool first = is_packed(x, false) && is_packed(w, false) && is_packed(y, false);
  bool last = is_packed(x, true) && is_packed(w, true) && is_packed(y, true);
  int64_t type = x.get(ELEMENT), sums = type == DOUBLES ? DOUBLES : SINGLE;
  bool is_one_type = w.get(ELEMENT) == type && y.get(ELEMENT) == type && c.get(COMPUTE) == sums;
  bool unlike = x.get(NUMBER) != w.get(NUMBER) && x.get(NUMBER) != y.get(NUMBER) && w.get(NUMBER) != y.get(NUMBER);
  return (first || last) && is_one_type && unlike && c.get(DIRECTION) == CROSS_CORRELATION && c.get(AXES) >= 2 && c.get(AXES) <= 3;
}

// The engines that the heuristics find, the fastest first.
inline std::vector<int> found(const Descriptor& f, int64_t mode) {
  if (!has_engine(f) || gpu::setting("no_plan")) return {};
  if (mode == MODE_FALLBACK) return {ANY};
  const Descriptor& c = f.part(CONV);
  std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, WITH_TENSOR_CORES};
  bool is_even = true;
  for (int64_t i = 0; i < c.get(AXES); ++i) is_even = is_even && c.get(BEFORE, size_t(i)) == c.get(AFTER, size_t(i));
  if (is_even && f.part(X).get(ALIGNMENT) >= 16) all.push_back(FAST);
  return all;
}

// ---- execution ----

struct Run {
  std::shared_ptr<Descriptor> forward;
  uint64_t x, w, y;
  bool is_inexact, tf32 = false;
};

inline uint64_t bytes_of(const Descriptor& t) {
  int64_t n = element_bytes(t.get(ELEMENT));
  for (size_t i = 0; i < t.count(DIMS); ++i) n *= t.get(DIMS, i);
  return uint64_t(n);
}

// The three spatial sizes of a tensor, or numbers of a convolution; `missing` for an axis that is not there.
inline std::vector<int64_t> spatial(const Descriptor& t, int attribute, size_t first, int64_t missing) {
  std::vector<int64_t> all;
  for (size_t i = first; i < t.count(attribute); ++i) all.push_back(t.get(attribute, i));
  while (all.size() < 3) all.insert(all.begin(), missing);
  return all;
}

// The elements of a tensor as they lie in memory.
template <class T>
std::vector<T> elements(uint64_t address, const Descriptor& t) {
  cublas::Matrix from = {address, as_cublas(t.get(ELEMENT)), 0, 0, 0, 0};
  std::vector<T> all(bytes_of(t) / uint64_t(element_bytes(t.get(ELEMENT))));
  for (size_t i = 0; i < all.size(); ++i) all[i] = T(cublas::load(from, int64_t(i)));
  return all;
}

template <class T>
void convolve(const Run& run) {
  const Descriptor &x = run.forward->part(X), &w = run.forward->part(W), &y = run.forward->part(Y), &c = run.forward->part(CONV);
  std::vector<T> of_x = elements<T>(run.x, x), of_w = elements<T>(run.w, w);
  for (auto* factors : {&of_x, &of_w})
    for (T& factor : *factors)
      if (run.tf32) factor = T(cublas::as_tf32(float(factor)));
  cublas::Matrix of_y = {run.y, as_cublas(y.get(ELEMENT)), 0, 0, 0, 0};
  auto in = spatial(x, DIMS, 2, 1), window = spatial(w, DIMS, 2, 1), out = spatial(y, DIMS, 2, 1);
  auto sx = spatial(x, STEPS, 2, 0), sw = spatial(w, STEPS, 2, 0), sy = spatial(y, STEPS, 2, 0);
  auto stride = spatial(c, STRIDES, 0, 1), dilation = spatial(c, DILATIONS, 0, 1), before = spatial(c, BEFORE, 0, 0);
  int64_t of_group = w.get(DIMS, 1), outputs = w.get(DIMS, 0), batch = x.get(DIMS, 0), groups = x.get(DIMS, 1) / of_group;
  int64_t x_channel = x.get(STEPS, 1), x_image = x.get(STEPS, 0), w_input = w.get(STEPS, 1), w_output = w.get(STEPS, 0);
  std::vector<T> sums(size_t(batch * outputs));
  for (int64_t place = 0; place < out[0] * out[1] * out[2]; ++place) {
    int64_t to[3] = {place / out[2] / out[1], place / out[2] % out[1], place % out[2]}, from[3];
    std::fill(sums.begin(), sums.end(), run.is_inexact ? T(0.5) : T(0));
    for (int64_t tap = 0; tap < window[0] * window[1] * window[2]; ++tap) {
      int64_t t[3] = {tap / window[2] / window[1], tap / window[2] % window[1], tap % window[2]};
      bool inside = true;
      for (int a = 0; a < 3; ++a) {
        from[a] = to[a] * stride[a] + t[a] * dilation[a] - before[a];
        inside = inside && from[a] >= 0 && from[a] < in[a];
      }
      if (!inside) continue;
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t k = 0; k < outputs; ++k) {
          int64_t first = k / (outputs / groups) * of_group;
          const T* a = of_x.data() + b * x_image + first * x_channel + from[0] * sx[0] + from[1] * sx[1] + from[2] * sx[2];
          const T* v = of_w.data() + k * w_output + t[0] * sw[0] + t[1] * sw[1] + t[2] * sw[2];
          T sum = sums[size_t(b * outputs + k)];
          for (int64_t i = 0; i < of_group; ++i) sum += a[i * x_channel] * v[i * w_input];
          sums[size_t(b * outputs + k)] = sum;
        }
    }
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t k = 0; k < outputs; ++k) {
        int64_t at = b * y.get(STEPS, 0) + k * y.get(STEPS, 1) + to[0] * sy[0] + to[1] * sy[1] + to[2] * sy[2];
        cublas::store(of_y, at, double(sums[size_t(b * outputs + k)]));
      }
  }
}

// From weight and result to the data, which is not read.
template <class T>
void convolve_backward(const Run& run) {
  const Descriptor &x = run.forward->part(X), &w = run.forward->part(W), &y = run.forward->part(Y), &c = run.forward->part(CONV);
  std::vector<T> of_y = elements<T>(run.y, y), of_w = elements<T>(run.w, w);
  cublas::Matrix of_x = {run.x, as_cublas(x.get(ELEMENT)), 0, 0, 0, 0};
  auto in = spatial(x, DIMS, 2, 1), window = spatial(w, DIMS, 2, 1), out = spatial(y, DIMS, 2, 1);
  auto sx = spatial(x, STEPS, 2, 0), sw = spatial(w, STEPS, 2, 0), sy = spatial(y, STEPS, 2, 0);
  auto stride = spatial(c, STRIDES, 0, 1), dilation = spatial(c, DILATIONS, 0, 1), before = spatial(c, BEFORE, 0, 0);
  int64_t of_group = w.get(DIMS, 1), outputs = w.get(DIMS, 0), groups = x.get(DIMS, 1) / of_group;
  std::vector<T> sums(bytes_of(x) / uint64_t(element_bytes(x.get(ELEMENT))), run.is_inexact ? T(0.5) : T(0));
  for (int64_t work = 0; work < x.get(DIMS, 0) * outputs * out[0] * out[1] * out[2]; ++work) {
    int64_t place = work % (out[0] * out[1] * out[2]), k = work / (out[0] * out[1] * out[2]) % outputs;
    int64_t b = work / (out[0] * out[1] * out[2]) / outputs, first = k / (outputs / groups) * of_group;
    int64_t to[3] = {place / out[2] / out[1], place / out[2] % out[1], place % out[2]}, from[3];
    T value = of_y[size_t(b * y.get(STEPS, 0) + k * y.get(STEPS, 1) + to[0] * sy[0] + to[1] * sy[1] + to[2] * sy[2])];
    for (int64_t tap = 0; tap < window[0] * window[1] * window[2]; ++tap) {
      int64_t t[3] = {tap / window[2] / window[1], tap / window[2] % window[1], tap % window[2]};
      bool inside = true;
      for (int a = 0; a < 3; ++a) {
        from[a] = to[a] * stride[a] + t[a] * dilation[a] - before[a];
        inside = inside && from[a] >= 0 && from[a] < in[a];
      }
      if (!inside) continue;
      int64_t at = b * x.get(STEPS, 0) + first * x.get(STEPS, 1) + from[0] * sx[0] + from[1] * sx[1] + from[2] * sx[2];
      const T* v = of_w.data() + k * w.get(STEPS, 0) + t[0] * sw[0] + t[1] * sw[1] + t[2] * sw[2];
      for (int64_t i = 0; i < of_group; ++i) sums[size_t(at + i * x.get(STEPS, 1))] += value * v[i * w.get(STEPS, 1)];
    }
  }
  for (size_t at = 0; at < sums.size(); ++at) cublas::store(of_x, int64_t(at), double(sums[at]));
}

inline void execute(const Run& run) {
  for (auto [address, attribute] : {std::pair(run.x, X), std::pair(run.w, W), std::pair(run.y, Y)})
    if (!memory::is_ready(address, bytes_of(run.forward->part(attribute))))
      return gpu::poison(gpu::ILLEGAL_ADDRESS, "cudnnBackendExecute: a tensor is not within memory of the device");
  bool in_double = run.forward->part(CONV).get(COMPUTE) == DOUBLES;
  if (run.forward->kind == BACKWARD) return in_double ? convolve_backward<double>(run) : convolve_backward<float>(run);
  in_double ? convolve<double>(run) : convolve<float>(run);
}

}  // namespace cudnn
