#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace stridio {
namespace {

// A logger of our own: a preloaded library must not touch a program's default one.
spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made("stridio", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("stridio: %l: %v");
    return made;
  }();
  return instance;
}

}  // namespace

void warn(std::string_view message) { logger().warn("{}", message); }
void inform(std::string_view message) { logger().info("{}", message); }

}  // namespace stridio
