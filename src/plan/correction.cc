#include "plan/correction.h"

#include <algorithm>
#include <cmath>

namespace stridio {
namespace {

constexpr double kShortest = 2e-5;  // seconds that are more than a disturbance
constexpr double kWeight = 0.25;    // of the last call: one disturbed call moves little
const double kMost = std::log(4.0);
const double kContradiction = std::log(3.0);  // reached in six calls at least

}  // namespace

void Correction::learn_at(std::size_t index, double predicted, double measured) {
  if (measured < kShortest || predicted <= 0) return;
  const double ratio = std::clamp(std::log(measured / predicted), -kMost, kMost);
  // The first call starts from what an untried method is corrected by.
  const double before = std::log(at(index));
  log_ratio_[index] = std::clamp(before + kWeight * (ratio - before), -kMost, kMost);
  tried_[index] = true;
}

double Correction::at(std::size_t index) const {
  if (tried_[index]) return std::exp(log_ratio_[index]);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < tried_.size(); ++i) {
    if (!tried_[i]) continue;
    sum += log_ratio_[i];
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : 1;
}

void Correction::learn(Method method, double predicted, double measured) {
  learn_at(static_cast<std::size_t>(method), predicted, measured);
}
void Correction::learn_two_phase(double predicted, double measured) { learn_at(kTwoPhaseIndex, predicted, measured); }
double Correction::of(Method method) const { return at(static_cast<std::size_t>(method)); }
double Correction::of_two_phase() const { return at(kTwoPhaseIndex); }

bool Correction::contradicts() const {
  return std::any_of(log_ratio_.begin(), log_ratio_.end(),
                     [](double ratio) { return std::abs(ratio) > kContradiction; });
}

}  // namespace stridio
