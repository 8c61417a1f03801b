// Time-series charts drawn by uPlot from the JSON at data-chart-url.
"use strict";
