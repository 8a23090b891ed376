// The tests that end a run of recorded steps, applied on the device. After each step one warp reads the step's
// scalars. If one of them ends the run, the warp sets the flags of the later steps, and their kernels return at
// once.
#pragma once
#include <cmath>

#include "core/device/state.hpp"

namespace protean::device {

// In device memory, copied to the host after each graph of steps.
struct Judgement {
  static constexpr int most_steps = 256, most_guards = 4;
  int next_copy;                  // 0 or 1: where the next graph writes its copy
  int ended;                      // not 0: the run has ended
  int steps;                      // done in this graph
  long long left;                 // before the iteration limit
  double goal, limit;             // of the residual: reached below, diverged above
  double guards[most_guards][3];  // value and the two scales, at the last step
  double residual_squared[most_steps];
};

// Step `step` of a graph of `steps`.
template <class T>
struct Judge {
  // A value that must be positive, or must not be zero: |value| > factor * sqrt(scale_a) sqrt(scale_b).
  struct Guard {
    const T *value, *scale_a, *scale_b;
    double factor;
    bool positive;
  };
  const T* residual_squared;
  int guards, step, steps;
  Guard guard[Judgement::most_guards];
  Judgement* judgement;
  int* stop;  // stop[k] is not 0 if step k must not be computed

  // What one lane of the judging warp needs from memory. stored(where): whether memory holds that scalar
  // already; if it does not, nothing is loaded, and newest() below has the number.
  struct Loaded {
    const T* where = nullptr;  // of its part of a guard
    T number{}, squared{};
    double goal, limit;
    long long left;
  };
  template <class Stored>
  __device__ Loaded load(Stored stored) const {
    Loaded loaded;
    const int mine = threadIdx.x % 32 / 3, part = threadIdx.x % 32 % 3;
    if (mine < guards) {
      const Guard& g = guard[mine];
      loaded.where = part == 0 ? g.value : part == 1 ? g.scale_a : g.scale_b;
    }
    if (loaded.where && stored(loaded.where)) loaded.number = *loaded.where;
    if (stored(residual_squared)) loaded.squared = *residual_squared;
    loaded.goal = judgement->goal, loaded.limit = judgement->limit, loaded.left = judgement->left - 1;
    return loaded;
  }

  // By a whole warp, if stop[step] is 0. newest(where, number) is the scalar that belongs at `where`, for which load()
  // returned `number`.
  template <class Newest>
  __device__ void operator()(const Loaded& loaded, Newest newest) const {
    const int lane = threadIdx.x % 32, mine = lane / 3, part = lane % 3;
    const double number = loaded.where ? static_cast<double>(newest(loaded.where, loaded.number)) : 0;
    const double squared = static_cast<double>(newest(residual_squared, loaded.squared));
    double scale = 0;
    if (__any_sync(0xffffffffu, part > 0 && loaded.where))
      scale = sqrt(__shfl_sync(0xffffffffu, number, 3 * mine + 1)) *
              sqrt(__shfl_sync(0xffffffffu, number, 3 * mine + 2));
    bool end = false;
    if (mine < guards) {
      judgement->guards[mine][part] = number;
      const Guard& g = guard[mine];
      if (part == 0)
        end = !isfinite(number) ||
              !(g.positive ? number > 0 : fabs(number) > g.factor * (g.scale_a ? scale : 0));
    }
    if (lane == 0) {
      const double residual = sqrt(squared);
      end |= !isfinite(squared) || squared < 0 || residual <= loaded.goal || residual > loaded.limit ||
             loaded.left <= 0;
      judgement->residual_squared[step] = squared;
      judgement->steps = step + 1, judgement->left = loaded.left;
    }
    if (__any_sync(0xffffffffu, end)) {
      if (lane == 0) judgement->ended = 1;
      for (int k = step + 1 + lane; k < steps; k += 32) stop[k] = 1;
    }
  }
};

}  // namespace protean::device
