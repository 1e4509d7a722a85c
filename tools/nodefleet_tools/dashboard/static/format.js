// Figures and times as people read them. Times are UTC, as in every record.

const two = (value) => String(value).padStart(2, "0");

export function clock(seconds, withSeconds = false) {
  const at = new Date(seconds * 1000);
  const text = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
  return withSeconds ? `${text}:${two(at.getUTCSeconds())}` : text;
}

export function day(seconds) {
  return new Date(seconds * 1000).toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
}

export function moment(seconds) {
  return `${day(seconds)} ${clock(seconds, true)}`;
}

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 7200) return `${Math.round(whole / 60)} min`;
  if (whole < 172800) return `${(whole / 3600).toFixed(whole < 36000 ? 1 : 0)} h`;
  return `${Math.round(whole / 86400)} d`;
}

export function usd(value, digits) {
  if (value === null || value === undefined) return "–";
  const places = digits ?? (Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 1 ? 2 : Math.abs(value) >= 0.1 ? 3 : 4);
  return `$${value.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places })}`;
}

export function percent(value, digits = 0) {
  return value === null || value === undefined ? "–" : `${value.toFixed(digits)} %`;
}

export const MARKETS = { spot: "Spot", "on-demand": "On-Demand", "": "–" };
export const bytes = (value) => (value >= 1 << 30 ? `${(value / (1 << 30)).toFixed(1)} GiB` : `${Math.round(value / (1 << 20))} MiB`);
export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
