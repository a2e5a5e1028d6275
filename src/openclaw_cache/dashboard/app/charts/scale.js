// Axes. Pure.

/** The smallest of 1, 2, 3, 4, 6, 8 × 10ⁿ that is not below `value`. */
export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 3, 4, 6, 8, 10]) {
    if (step * power >= value * (1 - 1e-9)) return Number((step * power).toPrecision(3));
  }
  return 10 * power;
}

/** The place of each of at most `most` labels along `num` points, the first and a last one among them. */
export function labelPlaces(num, most) {
  if (num <= 0) return [];
  const step = Math.max(1, Math.ceil(num / most));
  const places = [];
  for (let i = 0; i < num; i += step) places.push(i);
  return places;
}

/** A logarithmic axis over positive values, on whole decades: `{low, high, at(value) → 0…1, ticks}`. */
export function logAxis(values) {
  const known = values.filter((value) => value > 0);
  const low = 10 ** Math.floor(Math.log10(known.length ? Math.min(...known) : 0.001));
  const high = Math.max(low * 10, 10 ** Math.ceil(Math.log10(known.length ? Math.max(...known) : 1)));
  const width = Math.log10(high / low);
  const ticks = [];
  for (let i = 0; i <= Math.round(width); i += 1) ticks.push(low * 10 ** i);
  const at = (value) => Math.min(1, Math.max(0, Math.log10(Math.max(value, low) / low) / width));
  return { low, high, at, ticks };
}
