// What the ranks do with their open file, one call after the other, and what must come of it.
#pragma once

#include "property/file_world.h"

namespace stridio::testing {

class Step {
 public:
  virtual ~Step() = default;
  virtual std::string text() const = 0;
  // Whether all ranks fail where one does.
  virtual bool collective() const = 0;
  // On every rank at once; the ranks' sides are their own, the rest of the world is not changed
  // meanwhile.
  virtual Result<Bytes> act(World& world, Group& group) = 0;
  // Afterwards, where no fault was met: what is wrong. Moves the model on.
  virtual std::optional<std::string> wrong(World& world) = 0;
  // Whose bytes it writes, for the watches.
  virtual const Ownership& owners() const;
};

std::unique_ptr<Step> open_step();
std::unique_ptr<Step> close_step();
// Any other, as the world stands.
std::unique_ptr<Step> draw_step(World& world);

// The parts of draw_step.
std::unique_ptr<Step> draw_transfer(World& world);
std::unique_ptr<Step> draw_view(World& world);
std::unique_ptr<Step> draw_mistake(World& world);

// What is wrong if not every rank succeeded.
std::optional<std::string> any_failed(const World& world);

}  // namespace stridio::testing
