import { describe, expect, it } from "vitest";
import * as format from "../src/lib/format";

describe("numbers", () => {
  it("have units and three digits", () => {
    expect(format.duration(950)).toBe("950 ns");
    expect(format.duration(12_345)).toBe("12.3 µs");
    expect(format.duration(1.5e9)).toBe("1.50 s");
    expect(format.bytesPerSecond(4.8e12)).toBe("4.80 TB/s");
    expect(format.flopsPerSecond(9.87e11)).toBe("987 Gflop/s");
    expect(format.percent(0.8249)).toBe("82 %");
    expect(format.percent(0.0012, 2)).toBe("0.12 %");
    expect(format.figure(0.00012)).toBe("1.20e-4");
    expect(format.figure(12.345)).toBe("12.3");
    expect(format.count(100000)).toBe("100,000");
  });
  it("are dashes where nothing was measured", () => {
    for (const nothing of [0, -1, NaN, Infinity]) {
      expect(format.duration(nothing)).toBe(format.dash);
      expect(format.ratio(nothing)).toBe(format.dash);
    }
    expect(format.interval(0, 1)).toBe(format.dash);
    expect(format.bytesPerSecond(0)).toBe(format.dash);
    expect(format.figure(NaN)).toBe(format.dash);
  });
  it("label a time axis by hour, with the day where it changes", () => {
    const at = (day: number, hour: number) => new Date(2026, 2, day, hour, 5).getTime() / 1e3;
    expect(format.axisTimes([at(1, 14), at(1, 23), at(2, 1), at(2, 2)])).toEqual(["14:05\n2026-03-01", "23:05", "01:05\n2026-03-02", "02:05"]);
    expect(format.axisTimes([at(1, 14) + 30])).toEqual(["14:05:30\n2026-03-01"]);
    expect(format.axisTimes([])).toEqual([]);
  });
  it("count memory in powers of two", () => {
    expect(format.bytes(512)).toBe("512 B");
    expect(format.bytes(17408)).toBe("17.0 KiB");
    expect(format.bytes(25276514304)).toBe("23.5 GiB");
    expect(format.bytes(-1)).toBe(format.dash);
  });
  it("say speed-ups with their intervals", () => {
    expect(format.ratio(1.8444)).toBe("1.84×");
    expect(format.ratio(123.4)).toBe("123.4×");
    expect(format.interval(1.81, 1.869)).toBe("1.81–1.87×");
  });
});

describe("times", () => {
  it("are spans", () => {
    expect(format.span(0)).toBe("0 s");
    expect(format.span(42)).toBe("42 ms");
    expect(format.span(42_000)).toBe("42 s");
    expect(format.span(125_000)).toBe("2 min 05 s");
    expect(format.span(3_900_000)).toBe("1 h 05 min");
    expect(format.span(200 * 3600_000)).toBe("8 d 8 h");
    expect(format.span(NaN)).toBe(format.dash);
  });
  it("are ages, never of the future", () => {
    const now = 1_000_000_000_000;
    const ago = (seconds: number) => format.age((now - seconds * 1000) * 1e6, now);
    expect(ago(1)).toBe("just now");
    expect(ago(-100)).toBe("just now");
    expect(ago(59)).toBe("59 s ago");
    expect(ago(3599)).toBe("59 min ago");
    expect(ago(47 * 3600)).toBe("47 h ago");
    expect(ago(72 * 3600)).toBe("3 d ago");
    expect(format.age(0, now)).toBe(format.dash);
    expect(format.absolute(0)).toBe(format.dash);
    expect(format.absolute(1e18)).toMatch(/^2001-09-0\d \d\d:\d\d:\d\d$/);
  });
});

describe("values", () => {
  it("are names and values", () => {
    expect(format.values({ BLOCK: 256, ROWS: 4 })).toBe("BLOCK=256 ROWS=4");
    expect(format.values({ odd: { a: 1 } })).toBe('odd={"a":1}');
    expect(format.values({})).toBe(format.dash);
    expect(format.values(null)).toBe(format.dash);
  });
});
