// The link of format split on a fake device: copies by name, one after another, and the clock of the test. It throws
// std::logic_error if the matrix does not keep to the order of calls that engines/split/split.hpp asks for.
#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/simulated_device.hpp"
#include "core/transfer.hpp"
#include "formats/engines/split/split.hpp"

namespace protean::test {

// While an object of this class lives, products in format split on fake devices take these times: a function of the
// bytes of y that the host computes, 0 if it has no rows. One at a time. Without one both parts always take equally
// long, so that no rows move.
class SplitClock {
 public:
  using Times = std::function<formats::SplitTimes(std::size_t host_bytes)>;
  explicit SplitClock(Times times) { current() = std::move(times); }
  ~SplitClock() { current() = nullptr; }
  SplitClock(const SplitClock&) = delete;
  SplitClock& operator=(const SplitClock&) = delete;
  static Times& current() {
    static Times times;
    return times;
  }
};

class LinkByCopies final : public formats::SplitLink {
 public:
  explicit LinkByCopies(ContextPtr context) : context_(std::move(context)) {}

  void make_room(std::size_t x_bytes, std::size_t y_bytes) override {
    require(state_ == State::idle, "make_room");
    // New memory each time, so that whoever keeps an address of before is found by AddressSanitizer.
    x_ = std::vector<double>(x_bytes / 8 + 1), y_ = std::vector<double>(y_bytes / 8 + 1);
  }
  void* x() noexcept override { return x_.data(); }
  void* y() noexcept override { return y_.data(); }

  void begin(bool measured) override {
    require(state_ == State::idle, "begin");
    state_ = State::begun, measured_ = measured, host_bytes_ = 0, has_host_ = false;
  }
  void fetch(const void* from, std::size_t bytes) override {
    require(state_ == State::begun && bytes <= x_.size() * 8, "fetch");
    detail::copy_bytes(*context_, x(), Space::host, from, Space::device, bytes);
    state_ = State::fetching;
  }
  void gather(const void* from, std::size_t value_bytes, const std::int32_t* columns, std::int64_t count,
              void* packed) override {
    const std::size_t bytes = static_cast<std::size_t>(count) * value_bytes;
    require(state_ == State::begun && bytes <= x_.size() * 8, "gather");
    {
      const detail::DeviceWork work(*context_, {from, columns, packed});
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(static_cast<char*>(packed) + static_cast<std::size_t>(i) * value_bytes,
                    static_cast<const char*>(from) + static_cast<std::size_t>(columns[i]) * value_bytes,
                    value_bytes);
    }
    detail::copy_bytes(*context_, x(), Space::host, packed, Space::device, bytes);
    state_ = State::fetching;
  }
  void device_done() override {
    require(state_ == State::begun || state_ == State::fetching, "device_done");
    has_host_ = std::exchange(state_, State::computed) == State::fetching;
  }
  void wait_for_x() override {
    require(state_ == State::computed && has_host_, "wait_for_x");
    state_ = State::waited;
  }
  void send(void* to, std::size_t bytes) override {
    require(state_ == State::waited && bytes <= y_.size() * 8, "send");
    detail::copy_bytes(*context_, to, Space::device, y(), Space::host, bytes);
    host_bytes_ = bytes, state_ = State::sent;
  }
  void end() override {
    require(state_ == (has_host_ ? State::sent : State::computed), "end");
    state_ = State::idle, ended_ = true;
  }
  std::optional<formats::SplitTimes> times() override {
    require(state_ == State::idle, "times");
    if (!std::exchange(ended_, false) || !measured_) return {};
    if (SplitClock::current()) return SplitClock::current()(host_bytes_);
    return formats::SplitTimes{1e-3, has_host_ ? 1e-3 : 0, 1e-3};
  }
  void rebuild(const std::function<void()>& build) override {
    require(state_ == State::idle, "rebuild");
    build();
  }

 private:
  enum class State { idle, begun, fetching, computed, waited, sent };
  static void require(bool good, const char* call) {
    if (!good)
      throw std::logic_error(std::string("the link of a split matrix: ") + call + " in the wrong place");
  }

  ContextPtr context_;
  std::vector<double> x_, y_;
  State state_ = State::idle;
  bool measured_ = false, has_host_ = false, ended_ = false;
  std::size_t host_bytes_ = 0;
};

inline formats::SplitTools split_on_fake_device() {
  return {[](const ContextPtr& context) -> std::unique_ptr<formats::SplitLink> {
            return std::make_unique<LinkByCopies>(context);
          },
          [](const Context&) {
            return formats::SplitLinkSpeed{1e-5, 2e10};
          }};
}

}  // namespace protean::test
