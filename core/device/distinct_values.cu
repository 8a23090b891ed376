// Finds the distinct values of an array in device memory, and the places of all values in their table.
#include <algorithm>

#include "core/device/copy.hpp"
#include "core/device/distinct_values.hpp"
#include "core/device/kernel_tools.cuh"
#include "core/device/primitives.hpp"

namespace protean::device {
namespace {

using Word = unsigned long long;  // as atomicCAS() wants it

constexpr std::int64_t most_blocks = 1024;
constexpr int slots = 1024;  // four times the words that fit
constexpr int room = 256;

// A set of words in open addressing; 0 marks a free slot, so word 0 is not stored.
struct Found {
  Word word[slots];
  int size;
};

// Adds a word to the set. False if it has more than `most` then.
__device__ inline bool add(Word* words, int* size, Word word, int most) {
  if (word == 0) return true;
  for (unsigned slot = static_cast<unsigned>(word * 0x9e3779b97f4a7c15ull >> 54);;
       slot = (slot + 1) % slots) {
    Word before = *const_cast<volatile Word*>(words + slot);
    if (before == 0) before = atomicCAS(words + slot, Word{0}, word);
    if (before == word) return true;
    if (before == 0) return atomicAdd(size, 1) < most;
    // The set of all blocks may be full of what other blocks add.
    if (*const_cast<volatile int*>(size) > most) return false;
  }
}

// found->size is more than `most` if there are too many.
__global__ void __launch_bounds__(block_size)
    distinct_kernel(std::int64_t count, const double* values, int most, Found* found) {
  __shared__ Word words[slots];
  __shared__ int size;
  for (int i = threadIdx.x; i < slots; i += block_size) words[i] = 0;
  if (threadIdx.x == 0) size = 0;
  __syncthreads();
  Word last = 0;
  bool fits = true;
  for (std::int64_t k = std::int64_t{blockIdx.x} * block_size + threadIdx.x; k < count && fits;
       k += std::int64_t{gridDim.x} * block_size) {
    const Word word = __double_as_longlong(values[k]);
    if (word != last) fits = add(words, &size, last = word, most) && *(volatile int*)&found->size <= most;
  }
  if (!fits) atomicMax(&found->size, most + 1);
  __syncthreads();
  for (int i = threadIdx.x; i < slots; i += block_size)
    if (words[i] != 0 && !add(found->word, &found->size, words[i], most)) atomicMax(&found->size, most + 1);
}

__global__ void __launch_bounds__(block_size)
    encode_kernel(std::int64_t count, const double* values, const double* table, int size,
                  std::uint8_t* places) {
  __shared__ Word words[room];
  for (int i = threadIdx.x; i < size; i += block_size) words[i] = __double_as_longlong(table[i]);
  __syncthreads();
  for (std::int64_t k = std::int64_t{blockIdx.x} * block_size + threadIdx.x; k < count;
       k += std::int64_t{gridDim.x} * block_size) {
    const Word word = __double_as_longlong(values[k]);
    int place = 0;  // the last that is not above the word
    for (int step = room / 2; step > 0; step /= 2)
      if (place + step < size && words[place + step] <= word) place += step;
    places[k] = static_cast<std::uint8_t>(place);
  }
}

unsigned blocks_for_entries(std::int64_t count) {
  return static_cast<unsigned>(std::min(most_blocks, (count + block_size - 1) / block_size));
}

}  // namespace

std::vector<std::uint64_t> distinct_words(const Context& context, std::int64_t count, const double* values,
                                          int most) {
  std::vector<std::uint64_t> words{0};
  if (count == 0) return words;
  const Scratch<Found> found(context, 1);
  PROTEAN_CUDA_CHECK(cudaMemsetAsync(found.data(), 0, found.bytes(), stream(context)));
  distinct_kernel<<<blocks_for_entries(count), block_size, 0, stream(context)>>>(count, values, most - 1,
                                                                                 found.data());
  PROTEAN_CUDA_CHECK(cudaGetLastError());
  const auto host = std::make_unique<Found>();
  copy_out(context, host.get(), found.data(), sizeof(Found));
  if (host->size > most - 1) return {};
  for (const Word word : host->word)
    if (word != 0) words.push_back(word);
  return words;
}

void encode_values(const Context& context, std::int64_t count, const double* values, const double* table,
                   int size, std::uint8_t* places) {
  if (count == 0) return;
  encode_kernel<<<blocks_for_entries(count), block_size, 0, stream(context)>>>(count, values, table, size,
                                                                               places);
  PROTEAN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace protean::device
