// The colours of the map in both themes.
import type { Theme } from "./airflow";
import type { Palette } from "./sky";

export const PALETTES: Record<Theme, Palette> = {
  light: {
    background: "#ffffff",
    empty: "#eef0f2",
    hatch: "#dcdfe3",
    outline: "#7b838d",
    grid: "rgba(60, 70, 85, 0.45)",
    gridUnder: "rgba(255, 255, 255, 0.18)",
    gridText: "#3b4350",
    gridHalo: "rgba(255, 255, 255, 0.85)",
    border: "rgba(255, 255, 255, 0.55)",
    mark: "#d6006c",
    plane: "#c2005f",
    planeUnder: "rgba(255, 255, 255, 0.75)",
    partition: "rgba(255, 255, 255, 0.75)",
    partitionUnder: "rgba(30, 36, 44, 0.3)",
    muted: ["#dde1e6", "#5f6874"],
    point: "#10151c",
    region: "#c2005f",
    match: "#e4572e",
  },
  dark: {
    background: "#111418",
    empty: "#1d2228",
    hatch: "#2a3038",
    outline: "#8b95a3",
    grid: "rgba(225, 232, 242, 0.4)",
    gridUnder: "rgba(10, 12, 15, 0.2)",
    gridText: "#d4dbe5",
    gridHalo: "rgba(10, 12, 15, 0.8)",
    border: "rgba(10, 12, 16, 0.55)",
    mark: "#ff6fb5",
    plane: "#ffd166",
    planeUnder: "rgba(10, 12, 15, 0.75)",
    partition: "rgba(255, 255, 255, 0.55)",
    partitionUnder: "rgba(0, 0, 0, 0.35)",
    muted: ["#2b323a", "#a3adba"],
    point: "#f5f8fc",
    region: "#ff6fb5",
    match: "#ff9f6b",
  },
};

// Of what lies over the map, which is grey below them: blue and orange are told apart by all eyes.
export const OVERLAYS = { margin: "#e0218a", increment: "#e0218a", added: "#1f78ff", removed: "#ff8a00", rewritten: "#8f5bd6" };
