#include "mpiio/signature.h"

namespace stridio::mpiio {

Signature::Signature(const Item& item) {
  if (item.size > 0) append({1, item, nullptr});
}

void Signature::append(const Part& part) {
  items_ += part.count * (part.child ? part.child->items_ : 1);
  if (!parts_.empty() && !parts_.back().child && !part.child && parts_.back().item.datatype == part.item.datatype) {
    parts_.back().count += part.count;
  } else {
    parts_.push_back(part);
  }
}

Signature Signature::repeated(std::int64_t count, const Signature& child) {
  if (count == 1) return child;
  Signature result;
  if (count <= 0 || child.parts_.empty()) return result;
  if (child.parts_.size() == 1) {
    Part part = child.parts_.front();
    part.count *= count;
    result.append(part);
  } else {
    result.append({count, {}, std::make_shared<const Signature>(child)});
  }
  return result;
}

Signature Signature::sequence(const std::vector<Signature>& parts) {
  Signature result;
  for (const Signature& each : parts)
    for (const Part& part : each.parts_) result.append(part);
  return result;
}

}  // namespace stridio::mpiio
